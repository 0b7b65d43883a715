"""Which two ends of a history belong to one byte stream.

Each node numbers its own links, and addresses do not say which dial an accepted stream came from. The frames
do: what one end received is the beginning of what the other end sent.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from toolkit.checks.records import MESSAGE_TAGS, Record

Entry = tuple[int, Record]
"""A record and its place in the history."""


_SEEN_AT = ("peer_addr", "client_addr")
"""Fields of HELLO and IDENTIFY with the address that the sender sees."""
_TELLING_FRAMES = 2
"""Banner and HELLO, or banner and IDENTIFY."""


_TAKEOVERS = ("REUSE", "REPLACE")
"""Decisions by which an incoming link becomes that of a session."""


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
        "actions",
        "agreed",
        "auth",
        "closed",
        "data",
        "decisions",
        "dialled",
        "far",
        "faults",
        "key",
        "opened",
        "peer",
        "rx",
        "session",
        "talk",
        "tx",
        "usage",
    )

    def __init__(self, key: LinkKey) -> None:
        self.key = key
        self.tx: list[Entry] = []
        self.rx: list[Entry] = []
        self.talk: list[Entry] = []
        """Its frames in both directions, except messages and acks."""
        self.data: list[Entry] = []
        """Its messages and acks in both directions."""
        self.actions: list[Entry] = []
        """Its ``link`` records."""
        self.opened: int | None = None
        """Index of the dial or the accept."""
        self.closed: int | None = None
        """Index of the first close."""
        self.dialled = False
        self.peer = ""
        """The address at the other end."""
        self.session: int | None = None
        """The session that it carried last."""
        self.auth: Entry | None = None
        """How the peer authenticated last, if it did."""
        self.faults: list[Entry] = []
        self.decisions: list[Entry] = []
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
        """True if the conversation went on behind the signatures: both ends stand by what they agreed on."""
        ends = (self,) if self.far is None else (self, self.far)
        return any(record["tag"] in _BEHIND_SIGNATURES for end in ends for _, record in end.rx)

    @property
    def is_whole(self) -> bool:
        """True if the stream was recorded from its banners on, as far as anything passed."""
        return all(frames[0][1].fields["tag"] == "BANNER" for frames in (self.tx, self.rx) if frames)

    def add_action(self, index: int, record: Record) -> None:
        """Take in what became of the link."""
        fields = record.fields
        if fields["session"] is not None:
            self.session = fields["session"]
        action = fields["action"]
        self.actions.append((index, record))
        if action == "close":
            self.closed = index if self.closed is None else self.closed
        elif self.opened is None:
            self.opened = index
            self.dialled = action == "dial"
            self.peer = fields["peer"]

    def add(self, entry: Entry) -> None:
        """Take in a fault, a decision, or what the link says of its authentication or its usage."""
        kind = entry[1].kind
        if kind == "fault":
            self.faults.append(entry)
        elif kind == "decision":
            self.decisions.append(entry)
            if entry[1].fields["verdict"].startswith(_TAKEOVERS) and entry[1].fields["session"] is not None:
                self.session = entry[1].fields["session"]
        elif kind == "auth":
            self.auth = entry
        else:
            self.usage = entry

    def refused(self, position: int) -> bool:
        """True if the frame at that place broke the link because it is not in the table there."""
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


def compresses(link: LinkLog) -> bool:
    """True if the ends have agreed to compress."""
    return any(
        record.fields["fields"].get("is_compress")
        for _, record in link.talk
        if record.fields["tag"] == "COMPRESSION_DONE"
    )


def _place(entry: Entry) -> int:
    return entry[0]


def pair_links(links: Iterable[LinkLog], node_of: Callable[[str], str | None]) -> None:
    """Find the other end of every accepted link among the links that were being dialled at that time.

    Args:
        links: all of them.
        node_of: the node with a name or an address; None if it is not known.
    """
    started = sorted(((log.opened, log) for log in links if log.opened is not None), key=lambda entry: entry[0])
    dialling: list[LinkLog] = []
    for opened, log in started:
        if log.dialled:
            dialling.append(log)
            continue
        dialling = [dial for dial in dialling if dial.far is None and not _closed_before(dial, opened)]
        most, best, agreed = 0, None, (0, 0)
        for dial in dialling:
            vague = min(len(dial.rx), len(log.rx)) < _TELLING_FRAMES
            if dial.key.node == log.key.node or (vague and node_of(dial.peer) not in {None, log.key.node}):
                continue
            arrived = _arrived(dial, log), _arrived(log, dial)
            if _is_announced(dial, log.peer):
                best, agreed = dial, arrived
                break
            likeness = 2 * sum(arrived) - len(dial.rx) - len(log.rx)
            if likeness > most and _same_beginning(arrived, (log, dial)):
                most, best, agreed = likeness, dial, arrived
        if best is not None:
            best.far, log.far = log, best
            log.agreed, best.agreed = agreed


def _is_announced(dial: LinkLog, address: str) -> bool:
    """True if the acceptor names that address as the dialling end's in its first frame."""
    told = (frame.fields["fields"].get(name) for _, frame in dial.rx[1:2] for name in _SEEN_AT)
    return any(type(each) is str and _bare(each) == _bare(address) for each in told)


def _bare(address: str) -> str:
    """An address without its protocol."""
    return address.removeprefix("v1:").removeprefix("v2:")


def _same_beginning(arrived: tuple[int, int], receivers: "tuple[LinkLog, LinkLog]") -> bool:
    """True if the frame behind the banner, which contains both addresses, is the same where it arrived."""
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
    """True if these are the two ends' records of one frame; a field only one end has recorded says nothing."""
    here, there = sent.fields, received.fields
    if here["tag"] != there["tag"] or here["length"] != there["length"] or here["index"] != there["index"]:
        return False
    ours, theirs = here["fields"], there["fields"]
    if ours == theirs:
        return True
    return all(theirs.get(name, value) == value for name, value in ours.items())
