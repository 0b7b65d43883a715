"""One end of a link as its frames pass: what the judges of the audit know when a frame is sent."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.checks.audit.rule import Book, Rule
from toolkit.checks.wires import LinkLog

Fields = dict[str, Any]


@dataclass(slots=True)
class Memory:
    """What one end of a session has received and acknowledged, over all its links."""

    came: int | None = None
    """The highest message seq that may have been received; None before a handshake was seen."""
    acked: int = 0
    """The highest that was acknowledged."""
    until: int = -1
    """Place of the last record taken in: links of a session may overlap, and are taken one by one."""

    def begin(self) -> None:
        """Count from 1 again: a new session."""
        self.came = self.acked = 0


@dataclass(slots=True)
class Pasts:
    """What is known of earlier links, shared by the talks of a history."""

    memories: dict[object, Memory] = field(default_factory=dict)
    served: set[object] = field(default_factory=set)
    """Nodes with the addresses of those that they have granted a session."""
    accepted: dict[object, list[LinkLog]] = field(default_factory=dict)
    """The links that each process has accepted."""


class Talk:
    """The state of one end of a link.

    Args:
        book: of the verdicts.
        link: its frames.
        pasts: of earlier links.
        is_ours: True if the node records its sessions, so that what it does without being seen is known.
    """

    __slots__ = (
        "acked_seq",
        "book",
        "came",
        "dialled",
        "first_seq",
        "folded_keepalives",
        "gap",
        "in_seq",
        "is_ours",
        "link",
        "lossy",
        "memory",
        "out_seq",
        "pasts",
        "position",
        "replays",
        "request",
        "sent",
        "signed",
        "stamps",
    )

    def __init__(self, book: Book, link: LinkLog, pasts: Pasts, *, is_ours: bool) -> None:
        self.book = book
        self.link = link
        self.pasts = pasts
        self.is_ours = is_ours
        self.dialled = link.dialled
        self.position = 0
        self.sent: dict[str, Fields] = {}
        """The last frame of each tag that this end has sent, except messages and keepalives."""
        self.came: dict[str, Fields] = {}
        """The same of those that it has received."""
        self.request = ""
        """Tag of the CLIENT_IDENT or SESSION_RECONNECT that waits for an answer."""
        self.lossy: bool | None = None
        self.in_seq: int | None = None
        self.acked_seq = 0
        """What this end has acknowledged on the link."""
        self.out_seq: int | None = None
        self.first_seq: int | None = None
        """The seq that is due as the first; None if it is not known."""
        self.replays = False
        """True if ``first_seq`` is the peer's in_seq and one."""
        self.stamps: deque[object] = deque()
        """Those of the KEEPALIVE2 that wait for an answer."""
        self.folded_keepalives = False
        """True if others may wait whose stamps have left the history."""
        self.signed: bool | None = None
        self.gap = False
        """True behind a frame that the history lacks."""
        self.memory = None
        if link.session is not None:
            self.memory = pasts.memories.setdefault((link.key[:2], link.session), Memory())

    def judge(self, rule: Rule, holds: bool, text: str, *values: object) -> None:  # noqa: FBT001 - the verdict
        """Note that the present frame was judged; see :meth:`Book.judge`."""
        book = self.book
        if holds:
            book.counts[rule] = book.counts.get(rule, 0) + 1
        else:
            book.judge(rule, self.link, self.position, holds=False, text=text, values=values)

    def miss(self) -> None:
        """The history lacks bytes of the link: its messages are not judged from here on."""
        self.gap = True
        if self.memory is not None:
            self.memory.came = None

    @property
    def crowded(self) -> bool:
        """True if the acceptor may be moving the dialler's session to another link: one that is open, too."""
        far, at = self.link.far, self.position
        return far is None or any(
            other is not self.link
            and (other.far is None or other.far.key.node == far.key.node)
            and (other.opened or 0) < at
            and (other.closed is None or other.closed > at)
            for other in self.pasts.accepted.get(self.link.key[:2], ())
        )


Judge = Callable[[Talk, Fields], None]
Judges = Mapping[str, Judge]
"""By the tag of the frame."""


def number(fields: Fields, name: str) -> int | None:
    """A field that is a whole number; None if the frame has none, as one that could not be decoded."""
    value = fields.get(name)
    return value if isinstance(value, int) else None


def numbers(fields: Fields, name: str) -> list[int] | None:
    """A field that is a list of whole numbers."""
    value = fields.get(name)
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return value
    return None
