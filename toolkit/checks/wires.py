"""Which two ends of a history belong to one byte stream.

Each node numbers its own links, and addresses do not say which dial an accepted stream came from. The frames
do: what one end received is the beginning of what the other end sent.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from toolkit.checks.records import MESSAGE_TAGS, Record

Entry = tuple[int, Record]
"""A record and its place in the history."""


_TELLING_FRAMES = 2
"""Banner and HELLO, or banner and IDENTIFY."""


class LinkKey(NamedTuple):
    """A link's name in the whole history."""

    node: str
    incarnation: int
    link: str


_BEHIND_SIGNATURES = frozenset(
    {"COMPRESSION_REQUEST", "CLIENT_IDENT", "SESSION_RECONNECT", "CONNECT_REPLY", *MESSAGE_TAGS}
)


class LinkLog:
    """The records of one end of a byte stream, each with its place in the history."""

    __slots__ = (
        "_messages",
        "agreed",
        "auth",
        "closed",
        "dialled",
        "far",
        "faults",
        "key",
        "opened",
        "peer",
        "rx",
        "session",
        "tx",
        "usage",
    )

    def __init__(self, key: LinkKey) -> None:
        self.key = key
        self.tx: list[Entry] = []
        self.rx: list[Entry] = []
        self.opened: int | None = None
        """Index of the dial or the accept."""
        self.closed: int | None = None
        self.dialled = False
        self.peer = ""
        """The address at the other end."""
        self.session: int | None = None
        """The session that it carried last."""
        self.auth: Entry | None = None
        """How the peer authenticated last, if it did."""
        self.faults: list[Entry] = []
        self.usage: Entry | None = None
        self.far: LinkLog | None = None
        """The other end, if it is in the history too."""
        self.agreed = 0
        """How many frames it received before the first that is not what the other end sent."""
        self._messages: dict[str, list[tuple[int, int]]] = {}

    def __repr__(self) -> str:
        return f"<LinkLog {self.key.link}>"

    @property
    def is_signed(self) -> bool:
        """Whether the conversation went on behind the signatures: both ends stand by what they agreed on."""
        ends = (self,) if self.far is None else (self, self.far)
        return any(record["tag"] in _BEHIND_SIGNATURES for end in ends for _, record in end.rx)

    def add_action(self, index: int, record: Record) -> None:
        """Take in what became of the link."""
        fields = record.fields
        if fields["session"] is not None:
            self.session = fields["session"]
        action = fields["action"]
        if action == "close":
            self.closed = index
        elif self.opened is None:
            self.opened = index
            self.dialled = action == "dial"
            self.peer = fields["peer"]

    def add(self, entry: Entry) -> None:
        """Take in a fault, or what the link says of its authentication or its usage."""
        kind = entry[1].kind
        if kind == "fault":
            self.faults.append(entry)
        elif kind == "auth":
            self.auth = entry
        else:
            self.usage = entry

    def refused(self, position: int) -> bool:
        """Whether the frame at that place broke the link, because it does not belong there: nobody acted on it."""
        if not self.rx or self.rx[-1][0] != position:
            return False
        return any(at > position and record["reason"] == "UNEXPECTED_FRAME" for at, record in self.faults)

    def messages(self, direction: str) -> list[tuple[int, int]]:
        """Place and seq of every message in one direction; not to be asked before all records are in."""
        found = self._messages.get(direction)
        if found is None:
            found = self._messages[direction] = [
                (position, seq)
                for position, record in (self.tx if direction == "tx" else self.rx)
                if record.fields["tag"] in MESSAGE_TAGS
                and isinstance(seq := record.fields["fields"].get("seq"), int)
            ]
        return found


def behind(frames: list[Entry], position: int) -> int:
    """Where the frames begin that stand behind a place of the history."""
    return bisect_right(frames, position, key=_place)


def _place(entry: Entry) -> int:
    return entry[0]


def pair_links(links: Iterable[LinkLog]) -> None:
    """Find the other end of every accepted link among the links that were being dialled at that time."""
    started = sorted(((log.opened, log) for log in links if log.opened is not None), key=lambda entry: entry[0])
    dialling: list[LinkLog] = []
    for opened, log in started:
        if log.dialled:
            dialling.append(log)
            continue
        dialling = [dial for dial in dialling if dial.far is None and not _closed_before(dial, opened)]
        most, best, agreed = 0, None, (0, 0)
        for dial in dialling:
            arrived = _arrived(dial, log), _arrived(log, dial)
            likeness = 2 * sum(arrived) - len(dial.rx) - len(log.rx)
            if likeness > most and _same_beginning(arrived, (log, dial)):
                most, best, agreed = likeness, dial, arrived
        if best is not None:
            best.far, log.far = log, best
            log.agreed, best.agreed = agreed


def _same_beginning(arrived: tuple[int, int], receivers: "tuple[LinkLog, LinkLog]") -> bool:
    """Whether the frame behind the banner, which tells both addresses, is the same where it arrived."""
    return all(count >= min(_TELLING_FRAMES, len(end.rx)) for count, end in zip(arrived, receivers, strict=True))


def _closed_before(log: LinkLog, index: int) -> bool:
    return log.closed is not None and log.closed < index


def _arrived(sender: LinkLog, receiver: LinkLog) -> int:
    """How many frames arrived before the first that is not what was sent.

    A pair is likely if more than half of all do. Not all: a proxy may have changed, added or dropped some, and
    behind such a place nothing is the same.
    """
    count = 0
    for (_, sent), (_, received) in zip(sender.tx, receiver.rx, strict=False):
        if not same_frame(sent, received):
            break
        count += 1
    return count


def same_frame(sent: Record, received: Record) -> bool:
    """Whether these are the two ends' records of one frame; a field only one end has recorded says nothing."""
    here, there = sent.fields, received.fields
    if here["tag"] != there["tag"] or here["length"] != there["length"] or here["index"] != there["index"]:
        return False
    ours, theirs = here["fields"], there["fields"]
    if ours == theirs:
        return True
    return all(theirs.get(name, value) == value for name, value in ours.items())
