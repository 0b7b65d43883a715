"""Results of TCP assembly in a form that tests compare."""

import io
from collections.abc import Collection, Iterable, Sequence

from tests.support.packets import pcap
from toolkit.capture.formats import open_capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.stream import End, Gap, Run, Stream, StreamEvent
from toolkit.dissect.tcp import Assembler

Lane = tuple[int, Direction]
WINDOW_BYTES = 1 << 20


class Assembled:
    """Everything that an assembler yields, with runs of the same direction joined."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.lanes: dict[Lane, list[bytes | int | str]] = {}
        """By stream and direction: bytes, sizes of gaps, and how it ended."""
        self.order: list[tuple[Lane, bytes | int | str]] = []
        """The same over all of them, in order; consecutive bytes of one direction in one."""
        self.rows: list[tuple[Lane, int, int, int]] = []
        """Of each packet's bytes: lane, size, time, number of the packet."""

    def add(self, event: StreamEvent, *, batched: bool) -> None:
        self.streams[event.stream.index] = event.stream
        event.stream.batched = batched
        lane = event.stream.index, event.direction
        what: bytes | int | str
        if isinstance(event, Run):
            what = bytes(event.data)
            assert event.ends[-1] == len(what)
            start = 0
            for end, time_ns, packet in zip(event.ends, event.times_ns, event.packets, strict=True):
                assert end > start
                self.rows.append((lane, end - start, time_ns, packet))
                start = end
        elif isinstance(event, Gap):
            assert event.size_bytes > 0
            what = event.size_bytes
        else:
            assert isinstance(event, End)
            what = event.how.value
        self._join(self.lanes.setdefault(lane, []), what)
        if self.order and self.order[-1][0] == lane and isinstance(what, bytes):
            before = self.order[-1][1]
            if isinstance(before, bytes):
                self.order[-1] = lane, before + what
                return
        self.order.append((lane, what))

    @staticmethod
    def _join(runs: list[bytes | int | str], what: bytes | int | str) -> None:
        if runs and not isinstance(what, str) and type(runs[-1]) is type(what):
            runs[-1] += what
        else:
            runs.append(what)

    def to_server(self, stream: int = 0) -> list[bytes | int | str]:
        """Bytes that the client of a stream sent."""
        return self.lanes.get((stream, Direction.TO_SERVER), [])

    def to_client(self, stream: int = 0) -> list[bytes | int | str]:
        """Bytes that its server sent."""
        return self.lanes.get((stream, Direction.TO_CLIENT), [])


def assembled(
    packets: Iterable[bytes] | bytes,
    *,
    link_type: int = 1,
    window_bytes: int = WINDOW_BYTES,
    batched: bool = False,
    ports: Collection[int] | None = None,
) -> Assembled:
    """Assemble packets, or a capture file."""
    raw = packets if isinstance(packets, bytes) else pcap(packets, link_type=link_type)
    assembler = Assembler(ports)
    result = Assembled()
    for batch in open_capture(io.BytesIO(raw), window_bytes):
        _add_all(result, assembler.feed(batch), batched=batched)
    _add_all(result, assembler.finish(), batched=batched)
    return result


def _add_all(result: Assembled, events: Sequence[StreamEvent], *, batched: bool) -> None:
    for event in events:
        result.add(event, batched=batched)
