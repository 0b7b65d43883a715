"""The state of one end of a link while its frames are judged."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.checks.audit.rule import Book, Rule
from toolkit.checks.wires import LinkKey, LinkLog

Fields = dict[str, Any]
REORDERED_S = 0.1
"""Maximum time by which a capture may have a frame after a later frame of the other direction: it stores packets
in the order in which the queues of a network card, or several taps, deliver them."""


@dataclass(slots=True)
class Memory:
    """Received and acknowledged seqs of one end of a session, over all its links."""

    received: int | None = None
    """The highest message seq that may have been received; None before a handshake was seen."""
    acked: int = 0
    """The highest seq that was acknowledged."""
    until: int = -1
    """Position of the last counted record: links of a session may overlap, but are read one after the other."""

    def begin(self, position: int) -> None:
        """Count from 1 again for a new session, which begins at a position in the history."""
        self.received = self.acked = 0
        self.until = position


@dataclass(slots=True)
class EarlierLinks:
    """Facts about earlier links, shared by the talks of a history."""

    served: dict[object, LinkKey]
    """By an acceptor's node and the addresses of a connector, the first link on which it granted a session."""
    memories: dict[object, Memory] = field(default_factory=dict)
    accepted: dict[object, list[LinkLog]] = field(default_factory=dict)
    """By process, the links that it accepted."""


class Talk:
    """The state of one end of a link.

    Args:
        book: collects the verdicts.
        link: the link.
        earlier: facts about earlier links.
        is_ours: True if the node records its sessions, so that no session of it is unknown.
    """

    __slots__ = (
        "_arrivals",
        "_cut_s",
        "acked_seq",
        "book",
        "dialled",
        "earlier",
        "first_seq",
        "folded_keepalives",
        "gap",
        "in_seq",
        "is_ours",
        "late_statuses",
        "link",
        "lossy",
        "memory",
        "out_seq",
        "position",
        "received",
        "replays",
        "request",
        "sent",
        "signed",
        "stamps",
        "time_s",
    )

    def __init__(self, book: Book, link: LinkLog, earlier: EarlierLinks, *, is_ours: bool) -> None:
        self.book = book
        self.link = link
        self.earlier = earlier
        self.is_ours = is_ours
        self.dialled = link.dialled
        self.position = 0
        self.time_s = 0.0
        self.sent: dict[str, Fields] = {}
        """The last frame of each tag that this end has sent, except messages and keepalives."""
        self.received: dict[str, Fields] = {}
        """The last frame of each tag that this end has received, except messages and keepalives."""
        self.request = ""
        """Tag of the CLIENT_IDENT or SESSION_RECONNECT that is not answered yet."""
        self.lossy: bool | None = None
        self.in_seq: int | None = None
        self.acked_seq = 0
        """The highest seq that this end has acknowledged on the link."""
        self.out_seq: int | None = None
        self.first_seq: int | None = None
        """The seq that the first message must have; None if it is unknown."""
        self.replays = False
        """True if ``first_seq`` is the peer's in_seq plus one."""
        self.stamps: deque[object] = deque()
        """Timestamps of the KEEPALIVE2 that are not answered yet."""
        self.folded_keepalives = False
        """True if further KEEPALIVE2 may be unanswered, whose timestamps were folded."""
        self.signed: bool | None = None
        self.late_statuses: set[int] = set()
        """The undefined late statuses of frames that this end has sent."""
        self.gap = False
        """True after a frame that is missing in the history."""
        self._arrivals: dict[int, float] | None = None
        self._cut_s: float | None = None
        self.memory = None
        if link.session is not None:
            self.memory = earlier.memories.setdefault((link.key[:2], link.session), Memory())

    def judge(self, rule: Rule, holds: bool, text: str, *values: object) -> None:  # noqa: FBT001 - the verdict
        """Count the current frame as judged by a rule; see :meth:`Book.judge`."""
        book = self.book
        if holds:
            if self.position not in book.judged:
                return
            book.counts[rule] = book.counts.get(rule, 0) + 1
        else:
            book.judge(rule, self.link, self.position, holds=False, text=text, values=values)

    def miss(self) -> None:
        """Stop judging messages of the link: the history lacks some of its bytes."""
        self.gap = True
        if self.memory is not None:
            self.memory.received = None

    def is_next(self, seq: int) -> bool:
        """True if a capture has a message so soon after the frame that it may have arrived before it.

        So may a message among the frames that the history omits, if they begin so soon after it.
        """
        if self._arrivals is None:
            self._arrivals = {}
            for _, record in self.link.data:
                frame = record.fields
                if "frame" in frame and frame["direction"] == "rx" and frame["tag"] in {"MESSAGE", "MSG"}:
                    arrived_seq = number(frame["fields"], "seq")
                    if arrived_seq is not None:
                        self._arrivals.setdefault(arrived_seq, record.time_s)
            if self.link.has_bad_frames:
                self._cut_s = self.link.actions[-1][1].time_s
        arrived_s = self._arrivals.get(seq, self._cut_s)
        return arrived_s is not None and arrived_s - self.time_s <= REORDERED_S

    def comes_soon(self, tags: Collection[str]) -> bool:
        """True if a capture has a received frame so soon after this one that it may have arrived before it."""
        return any(
            position > self.position
            and "frame" in record.fields
            and record.fields["direction"] == "rx"
            and record.fields["tag"] in tags
            and record.time_s - self.time_s <= REORDERED_S
            for position, record in self.link.talk
        )

    def has_stamp_later(self, stamp: tuple[object, object]) -> bool:
        """True if a capture has a KEEPALIVE2 with the timestamp after the frame.

        A sender cannot know a timestamp in advance, so the order of the frames differs from that on the wire.
        """
        return any(
            position > self.position
            and "frame" in record.fields
            and (record.fields["tag"], record.fields["direction"]) == ("KEEPALIVE2", "rx")
            and (record.fields["fields"].get("seconds"), record.fields["fields"].get("nanoseconds")) == stamp
            for position, record in self.link.data + self.link.talk
        )

    @property
    def crowded(self) -> bool:
        """True if the acceptor may be moving the connector's session to another open link."""
        far, at = self.link.far, self.position
        return far is None or any(
            other is not self.link
            and (other.far is None or other.far.key.node == far.key.node)
            and (other.opened or 0) < at
            and (other.closed is None or other.closed > at)
            for other in self.earlier.accepted.get(self.link.key[:2], ())
        )


Judge = Callable[[Talk, Fields], None]
Judges = Mapping[str, Judge]
"""By tag, the function that judges a frame."""


def number(fields: Fields, name: str) -> int | None:
    """Return a field that is a whole number; None if the frame lacks it, as one that could not be decoded."""
    value = fields.get(name)
    return value if isinstance(value, int) else None


def numbers(fields: Fields, name: str) -> list[int] | None:
    """Return a field that is a list of whole numbers; None if it is not."""
    value = fields.get(name)
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return value
    return None
