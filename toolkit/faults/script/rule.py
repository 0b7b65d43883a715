"""Rules of the proxy: which frames match (WHERE), and what is done to them (docs/proxy.md).

::

    rule = Rule.parse("-> MESSAGE osd_op #3: cut")
    rule.where.tag  # "MESSAGE"
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Self

from messenger.errors import LocalError
from messenger.messages.types import MessageType, message_name
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.dissect.filters import compile_filter
from toolkit.dissect.follow import SeenFrame
from toolkit.faults import scalars
from toolkit.faults.dials import DIAL, AtDial, Refuse
from toolkit.faults.mangle import Change, Mangle
from toolkit.faults.rewrites import is_message
from toolkit.faults.script.frames import as_decoded
from toolkit.faults.script.verbs import AT_DIALS, Cut, What, read_what, write_what
from toolkit.faults.strike import ALL, Passes, Strike
from toolkit.faults.tap import Breakpoint
from toolkit.faults.timing import Delay, Hold
from toolkit.scanner import Scanner, TextError, blank_separated, did_you_mean, require_printable

TO_SERVER = "->"
TO_CLIENT = "<-"
BOTH = "<->"

TAGS = tuple(dict.fromkeys(("BANNER", *(tag.name for tag in Tag), *(piece.value for piece in Piece))))
"""Names of frames, of v2 and of v1."""
_WHERE = "WHERE is [->|<-|<->|PARTY] TAG [MESSAGE] [#N[-M]|#N+] [every K] [per link] [link N[-M]|N+] [if FILTER]"


@dataclass(frozen=True, slots=True)
class Where:
    """The frames that a rule matches.

    Raises:
        LocalError: no frame can match, or the filter is invalid.
    """

    sender: str = BOTH
    """``->`` for frames of the party that is named first, usually the connector, ``<-`` for those of the other
    party, ``<->`` for both; or a party's name."""
    tag: str = "*"
    """Name of the frame, with ``*`` and ``?`` as wildcards; ``dial`` for connection attempts, before any frame."""
    message: str = ""
    """Name of the message (``osd_op``), with wildcards; empty for all frames."""
    passes: Passes = ALL
    """Which of the matching frames, by their number."""
    per_link: bool = False
    """True to count frames on each link separately."""
    links: Passes = ALL
    """Which links, by their number since the rule was set."""
    filter: str = ""
    """Filter expression on the frame's fields (docs/decode.md); frames that it rejects are not counted."""

    def __post_init__(self) -> None:
        if self.tag != DIAL and not any(fnmatchcase(tag, self.tag) for tag in TAGS):
            raise LocalError(f"no tag {self.tag!r}{did_you_mean(self.tag, (*TAGS, DIAL))}")
        if self.tag == DIAL and (self.message or self.filter or self.per_link or self.links != ALL):
            raise LocalError("a dial is no frame: it has no message, no fields and no link")
        if self.message:
            known = _message_names()
            if not _matches_any(self.tag, ("MESSAGE", "MSG")):
                raise LocalError(f"{self.tag} is no message, so it has no message name {self.message!r}")
            if not _matches_any(self.message, known):
                raise LocalError(f"unknown message {self.message!r}{did_you_mean(self.message, known)}")
        if self.filter:
            compile_filter(self.filter)

    def __str__(self) -> str:
        parts = [self.sender, self.tag, self.message, _printed(self.passes), "per link" * self.per_link]
        if self.links != ALL:
            parts.append(f"link {_printed(self.links, mark='')}")
        if self.filter:
            parts.append(f"if {self.filter}")
        return " ".join(part for part in parts if part)


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    return "[" not in pattern and any(fnmatchcase(name, pattern) for name in names)


def _printed(passes: Passes, mark: str = "#") -> str:
    if passes == ALL:
        return ""
    if passes.last == passes.first:
        own = f"{mark}{passes.first}"
    else:
        own = f"{mark}{passes.first}{'+' if passes.last is None else f'-{passes.last}'}"
    if passes.every == 1:
        return own
    if passes.last is None and passes.first == passes.every:
        return f"every {passes.every}"
    return f"{own} every {passes.every}"


@cache
def _message_names() -> tuple[str, ...]:
    return tuple(message_name(type_) for type_ in MessageType)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: an action, and the frames that it is done to.

    Raises:
        LocalError: the action is not possible there.
    """

    where: Where
    what: What = field(hash=False)

    def __post_init__(self) -> None:
        if (self.where.tag == DIAL) != isinstance(self.what, Refuse) and not (
            self.where.tag == DIAL and isinstance(self.what, AT_DIALS)
        ):
            raise LocalError("a dial can be refused, held or delayed; only dials can be refused")
        if self.where.tag == DIAL and getattr(self.what, "alone", False):
            raise LocalError("`alone` applies to frames, not to dials")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse one line, ``WHERE: WHAT``.

        Raises:
            TextError: it is not a rule.
        """
        require_printable("rule", text)
        stop, filter_at = _borders(text)
        where = _read_where(text, stop, filter_at)
        what = read_what(Scanner("rule", blank_separated(text, stop + 1), len(text) + 1))
        try:
            return cls(where, what)
        except LocalError as error:
            raise TextError("rule", stop + 2, str(error)) from None

    def __str__(self) -> str:
        return f"{self.where}: {write_what(self.what)}"

    def strike(self, connector: str, acceptor: str, *, lenient: bool = True) -> Strike:
        """Return a strike that matches frames from now on, for a tap.

        Args:
            connector: name of the party whose frames ``->`` matches.
            acceptor: name of the party whose frames ``<-`` matches.
            lenient: True to forward frames that cannot be changed; otherwise :meth:`LinkTap.feed` raises
                LocalError.

        Raises:
            LocalError: the rule names another party.
        """
        where = self.where
        sender = {TO_SERVER: connector, TO_CLIENT: acceptor, BOTH: ""}.get(where.sender, where.sender)
        if sender not in {connector, acceptor, ""}:
            raise LocalError(
                f"no party {sender!r} here; there are {connector} ({TO_SERVER}) and {acceptor} ({TO_CLIENT})"
            )
        if where.tag == DIAL:
            assert isinstance(self.what, Refuse | Hold | Delay)
            action = self.what if isinstance(self.what, Refuse) else replace(self.what)
            return AtDial(sender, passes=where.passes, action=action)
        common = {"passes": where.passes, "links": where.links, "per_link": where.per_link}
        accepts = _acceptance(where, connector, acceptor)
        if isinstance(self.what, Cut):
            cut = self.what
            return Breakpoint(sender, where.tag, byte=cut.byte, how=cut.how, accepts=accepts, **common)  # type: ignore[arg-type]
        assert isinstance(self.what, Change)
        change = replace(self.what)  # type: ignore[type-var] # all of them are dataclasses
        return Mangle(sender, where.tag, change=change, lenient=lenient, accepts=accepts, **common)  # type: ignore[arg-type]


class _Acceptance:
    """True for frames that match a rule's message and filter; sender and tag are matched by the strike."""

    def __init__(self, where: Where, parties: tuple[str, str]) -> None:
        self._message = where.message
        self._wanted = compile_filter(where.filter) if where.filter else None
        self._parties = parties

    def __call__(self, frame: SeenFrame) -> bool:
        if self._message and not (is_message(frame) and fnmatchcase(str(frame.fields["name"]), self._message)):
            return False
        return self._wanted is None or self._wanted(as_decoded(frame, *self._parties))


def _acceptance(where: Where, connector: str, acceptor: str) -> _Acceptance | None:
    return _Acceptance(where, (connector, acceptor)) if where.message or where.filter else None


# ---- reading


def _borders(text: str) -> tuple[int, int | None]:
    """Return the position of the colon between WHERE and WHAT, and that of the filter before it, or None."""
    quote, filter_at, at = "", None, 0
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif filter_at is not None and character in "\"'":
            quote = character
        elif character == ":":
            return at, filter_at
        elif filter_at is None and text.startswith("if ", at) and text[at - 1 : at] in {"", " "}:
            filter_at = at + 3
            at += 2
        at += 1
    missing = f"the {quote} of a text" if quote else "the ':' between where and what"
    raise TextError("rule", len(text) + 1, f"{missing} is missing; a rule is WHERE: WHAT")


def _read_where(text: str, stop: int, filter_at: int | None) -> Where:
    head_stop = stop if filter_at is None else filter_at - 3
    found = Scanner("rule", blank_separated(text, 0, head_stop), head_stop + 1)
    sender = BOTH
    if found.peek() in {TO_SERVER, TO_CLIENT, BOTH} or (found.peek() != DIAL and found.peek()[:1].islower()):
        sender = found.read("a sender: ->, <-, <-> or the name of a party", _sender)
    column = found.column
    tag = found.take(f"a tag: one of {', '.join(TAGS)}, with * and ? for any characters, or {DIAL}").text
    message = ""
    if found.peek() and not found.peek().startswith("#") and found.peek() not in {"every", "per", "link"}:
        message = found.take("the name of a message").text
    passes = _read_passes(found, "#")
    per_link = found.has("per", "link")
    links = _read_passes(found, "") if found.has("link") else ALL
    found.finish(_WHERE)
    filter_ = text[stop if filter_at is None else filter_at : stop].lstrip()
    if filter_at is not None and not filter_:
        raise TextError("rule", filter_at + 1, "it ends too early; expected here: a filter")
    try:
        return Where(sender, tag, message, passes, per_link, links, filter_.rstrip())
    except TextError as error:  # of the filter
        raise TextError("rule", stop - len(filter_) + error.column, error.what) from None
    except LocalError as error:
        raise TextError("rule", column, str(error)) from None


def _sender(text: str) -> str:
    return text if text in {TO_SERVER, TO_CLIENT, BOTH} else scalars.name(text)


def _read_passes(found: Scanner, mark: str) -> Passes:
    first, last, every = None, None, None
    column = found.column
    if found.peek().startswith(mark) and (mark or found.peek()):
        wanted = f"{mark}N, {mark}N-M or {mark}N+"
        first, last = found.read(wanted, lambda text: _range(text.removeprefix(mark)))
    if mark and found.has("every"):
        every = found.read("a number from 1 on", scalars.count)
    if first is None and not mark:
        raise found.error("it ends too early; expected here: N, N-M or N+")
    try:
        return Passes(first or every or 1, last, every or 1)
    except LocalError as error:
        raise found.error(str(error), column) from None


def _range(text: str) -> tuple[int, int | None]:
    if text.endswith("+"):
        return scalars.count(text[:-1]), None
    first, dash, last = text.partition("-")
    return scalars.count(first), scalars.count(last) if dash else scalars.count(first)
