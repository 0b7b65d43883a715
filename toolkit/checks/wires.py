"""Pairs the two ends of each byte stream in a history.

Each node numbers its own links, and addresses do not show which dial an accepted stream came from. The frames do:
an end receives a prefix of what the other end sent.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from toolkit.checks.records import MESSAGE_TAGS, Record

Entry = tuple[int, Record]
"""A position in the history and the record there."""


_SEEN_AT = ("peer_addr", "client_addr")
"""Fields of HELLO and IDENTIFY with the peer's address as the sender sees it."""
_DECISIVE_FRAMES = 2
"""Number of frames that identify a stream: banner and HELLO, or banner and IDENTIFY."""


_TAKEOVERS = ("REUSE", "REPLACE")
"""Prefixes of decisions by which an incoming link takes over a session."""


class LinkKey(NamedTuple):
    """Identifies one end of a link in the whole history."""

    node: str
    incarnation: int
    link: str


_BEHIND_SIGNATURES = frozenset(
    {"COMPRESSION_REQUEST", "CLIENT_IDENT", "SESSION_RECONNECT", "CONNECT_REPLY", *MESSAGE_TAGS}
)


class LinkLog:
    """The records of one end of a byte stream, each with its position in the history."""

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
        """Position of the dial or the accept."""
        self.closed: int | None = None
        """Position of the first close."""
        self.dialled = False
        self.peer = ""
        """Address of the other end."""
        self.session: int | None = None
        """Number of the session that it carried last."""
        self.auth: Entry | None = None
        """The last ``auth`` record; None if the peer did not authenticate."""
        self.faults: list[Entry] = []
        self.decisions: list[Entry] = []
        self.usage: Entry | None = None
        self.far: LinkLog | None = None
        """The other end, if it is in the history; else None."""
        self.agreed = 0
        """Number of received frames before the first that differs from what the other end sent."""
        self._messages: dict[str, list[tuple[int, int]]] = {}

    def __repr__(self) -> str:
        return f"<LinkLog {self.key.link}>"

    @property
    def is_signed(self) -> bool:
        """True if the handshake continued after the signatures, so that both ends verified what they agreed on."""
        ends = (self,) if self.far is None else (self, self.far)
        return any(record["tag"] in _BEHIND_SIGNATURES for end in ends for _, record in end.rx)

    @property
    def is_whole(self) -> bool:
        """True if both directions were recorded from their banners on."""
        return all(frames[0][1].fields["tag"] == "BANNER" for frames in (self.tx, self.rx) if frames)

    @property
    def has_bad_frames(self) -> bool:
        """True if a capture has frames of the link that the history leaves out."""
        return any("bad_frames" in record.fields for _, record in self.actions)

    @property
    def may_lack_its_end(self) -> bool:
        """True if a capture has neither a FIN nor a RST of the link: other packets may be missing, too."""
        ends = (self,) if self.far is None else (self, self.far)
        is_captured = any("frame" in record.fields for _, record in self.tx[-1:] or self.rx[-1:])
        return is_captured and not any("tcp" in record.fields for end in ends for _, record in end.actions)

    def add_action(self, index: int, record: Record) -> None:
        """Add a ``link`` record."""
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
        """Add a fault, decision, auth or usage record."""
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
        """True if the frame at ``position`` broke the link because it was unexpected in its state."""
        if not self.rx or self.rx[-1][0] != position:
            return False
        return any(at > position and record["reason"] == "UNEXPECTED_FRAME" for at, record in self.faults)

    def messages(self, direction: str) -> list[tuple[int, int]]:
        """Return position and seq of every message in one direction. Call it only when all records are added."""
        found = self._messages.get(direction)
        if found is None:
            found = self._messages[direction] = [
                (position, seq)
                for position, record in (self.tx if direction == "tx" else self.rx)
                if record.fields["tag"] in MESSAGE_TAGS
                and isinstance(seq := record.fields["fields"].get("seq"), int)
            ]
        return found


def first_after(frames: list[Entry], position: int) -> int:
    """Return the index of the first frame after ``position``."""
    return bisect_right(frames, position, key=_place)


def compresses(link: LinkLog) -> bool:
    """True if the ends agreed to compress."""
    return any(
        record.fields["fields"].get("is_compress")
        for _, record in link.talk
        if record.fields["tag"] == "COMPRESSION_DONE"
    )


def _place(entry: Entry) -> int:
    return entry[0]


def pair_links(links: Iterable[LinkLog], node_of: Callable[[str], str | None]) -> None:
    """Find for every accepted link its other end among the links being dialled at that time.

    Args:
        links: all links of the history.
        node_of: returns the node with a name or an address; None if it is unknown.
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
            vague = min(len(dial.rx), len(log.rx)) < _DECISIVE_FRAMES
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
    """True if the acceptor's first frame names ``address`` as the address of the dialling end."""
    seen_addresses = (frame.fields["fields"].get(name) for _, frame in dial.rx[1:2] for name in _SEEN_AT)
    return any(type(each) is str and _bare(each) == _bare(address) for each in seen_addresses)


def _bare(address: str) -> str:
    """Strip the protocol from an address."""
    return address.removeprefix("v1:").removeprefix("v2:")


def _same_beginning(arrived: tuple[int, int], receivers: "tuple[LinkLog, LinkLog]") -> bool:
    """True if the frame after the banner, which contains both addresses, arrived unchanged at both ends."""
    return all(count >= min(_DECISIVE_FRAMES, len(end.rx)) for count, end in zip(arrived, receivers, strict=True))


def _closed_before(log: LinkLog, index: int) -> bool:
    return log.closed is not None and log.closed < index


def _arrived(sender: LinkLog, receiver: LinkLog) -> int:
    """Return the number of frames that arrived before the first one that differs from the sent one.

    Two ends are likely a pair if more than half of all frames agree. Not all must: after a place where a proxy
    changed, added or dropped frames, none agrees.
    """
    count = 0
    for (_, sent), (_, received) in zip(sender.tx, receiver.rx, strict=False):
        if not same_frame(sent, received):
            break
        count += 1
    return count


def same_frame(sent: Record, received: Record) -> bool:
    """True if these are the records of one frame at its two ends; fields that one end lacks are ignored."""
    here, there = sent.fields, received.fields
    if here["tag"] != there["tag"] or here["length"] != there["length"] or here["index"] != there["index"]:
        return False
    ours, theirs = here["fields"], there["fields"]
    if ours == theirs:
        return True
    return all(theirs.get(name, value) == value for name, value in ours.items())
