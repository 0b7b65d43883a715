from hypothesis import given
from hypothesis import strategies as st

from toolkit.bench.cell import Cell, Pattern
from toolkit.bench.traffic import Receiver, Sender


class Wire:
    """A sender and a receiver whose messages arrive when the test delivers them."""

    def __init__(self, cell: Cell) -> None:
        self.flying = self.most_flying = self.sent = 0
        self.replies = 0
        self.done: list[str] = []
        self.sender = Sender(cell.in_flight, cell.per_reply, self._send)
        self.receiver = Receiver(cell.per_reply, self._reply)

    def start(self, count: int) -> None:
        self.receiver.start(count, lambda: self.done.append("receiver"))
        self.sender.start(count, lambda: self.done.append("sender"))

    def _send(self, count: int) -> None:
        self.sent += count
        self.flying += count
        self.most_flying = max(self.most_flying, self.flying)

    def _reply(self, count: int) -> None:
        self.replies += count

    def deliver(self, most: int) -> None:
        arriving = min(most, self.flying)
        self.flying -= arriving
        if arriving:
            self.receiver.seen(arriving)
        replies, self.replies = self.replies, 0
        if replies:
            self.sender.seen(replies)


@given(st.sampled_from(Pattern), st.integers(1, 50), st.integers(0, 500), st.data())
def test_run_sends_the_given_count_and_limits_messages_in_flight(
    pattern: Pattern, in_flight: int, count: int, data: st.DataObject
) -> None:
    cell = Cell(pattern=pattern, size=1, in_flight=in_flight, mode="crc", cores=1)
    wire = Wire(cell)
    for run in (1, 2):
        wire.start(cell.rounded(count))
        while wire.flying:
            wire.deliver(data.draw(st.integers(1, 60)))
        assert wire.sent == run * cell.rounded(count)
        assert wire.done == ["receiver", "sender"] * run
    assert wire.most_flying == in_flight
