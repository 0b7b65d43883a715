"""Rules of the proxy: which frames match (WHERE), and what is done to them (docs/proxy.md).

::

    rule = Rule.parse("-> MESSAGE osd_op #3: cut")
    rule.where.tag  # "MESSAGE"
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Self

from messenger.errors import LocalError
from messenger.messages.types import MessageType, message_name
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.dissect.filters import compile_filter
from toolkit.dissect.follow import SeenFrame
from toolkit.faults.dials import DIAL, AtDial, Refuse
from toolkit.faults.mangle import Change, Mangle
from toolkit.faults.rewrites import is_message
from toolkit.faults.script import words
from toolkit.faults.script.frames import as_decoded
from toolkit.faults.script.verbs import AT_DIALS, Cut, What, read_what, write_what
from toolkit.faults.script.words import Words
from toolkit.faults.strike import ALL, Passes, Strike
from toolkit.faults.tap import Breakpoint
from toolkit.faults.timing import Delay, Hold

TO_SERVER = "->"
TO_CLIENT = "<-"
BOTH = "<->"

TAGS = tuple(dict.fromkeys(("BANNER", *(tag.name for tag in Tag), *(piece.value for piece in Piece))))
"""Names of frames, of v2 and of v1."""
_LONGEST = 4096
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
            raise LocalError(
                f"no tag {self.tag!r}; there are {', '.join(TAGS)}, and {DIAL}{_close(self.tag, TAGS)}"
            )
        if self.tag == DIAL and (self.message or self.filter or self.per_link or self.links != ALL):
            raise LocalError("a dial is no frame: it has no message, no fields and no link")
        if self.message:
            known = _message_names()
            if not _matches_any(self.tag, ("MESSAGE", "MSG")):
                raise LocalError(f"{self.tag} is no message, so it has no message name {self.message!r}")
            if not _matches_any(self.message, known):
                raise LocalError(f"unknown message {self.message!r}{_close(self.message, known)}")
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


def _close(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), 3)
    return f"; like {', '.join(close)}?" if close else ""


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
            LocalError: it is not a rule; the message has the column and what is accepted there.
        """
        if len(text) > _LONGEST:
            raise LocalError(f"rule: {len(text)} characters are more than {_LONGEST}")
        for column, character in enumerate(text, 1):
            if not character.isprintable():
                raise LocalError(f"rule, column {column}: a control character, {character!r}")
        stop, filter_at = _borders(text)
        where = _read_where(text, stop, filter_at)
        rest = Words(words.split(text[stop + 1 :], stop + 2), len(text) + 1)
        what = read_what(rest)
        try:
            return cls(where, what)
        except LocalError as error:
            raise LocalError(f"rule, column {stop + 2}: {error}") from None

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
    raise LocalError(f"rule, column {len(text) + 1}: {missing} is missing; a rule is WHERE: WHAT")


def _read_where(text: str, stop: int, filter_at: int | None) -> Where:
    head_stop = stop if filter_at is None else filter_at - 3
    found = Words(words.split(text[:head_stop]), head_stop + 1)
    sender = BOTH
    if found.peek() in {TO_SERVER, TO_CLIENT, BOTH} or (found.peek() != DIAL and found.peek()[:1].islower()):
        sender = found.take("a sender").text
        if sender not in {TO_SERVER, TO_CLIENT, BOTH}:
            try:
                words.name(sender)
            except ValueError:
                raise LocalError(f"rule, column 1: {sender!r} is neither ->, <- or <-> nor a name") from None
    column = found.column
    tag = found.take(f"a tag: one of {', '.join(TAGS)}, with * and ? for any characters, or {DIAL}").text
    message = ""
    if found.peek() and not found.peek().startswith("#") and found.peek() not in {"every", "per", "link"}:
        message = found.take("the name of a message").text
    passes = _read_passes(found, "#")
    per_link = found.has("per", "link")
    links = _read_passes(found, "") if found.has("link") else ALL
    found.finish(_WHERE)
    filter_ = "" if filter_at is None else text[filter_at:stop].strip()
    if filter_at is not None and not filter_:
        raise LocalError(f"rule, column {filter_at + 1}: it ends too early; expected here: a filter")
    try:
        return Where(sender, tag, message, passes, per_link, links, filter_)
    except LocalError as error:
        at = filter_at + 1 if filter_at is not None and str(error).startswith("filter") else column
        raise LocalError(f"rule, column {at}: {error}") from None


def _read_passes(found: Words, mark: str) -> Passes:
    first, last, every = None, None, None
    column = found.column
    if found.peek().startswith(mark) and (mark or found.peek()):
        wanted = f"{mark}N, {mark}N-M or {mark}N+"
        first, last = found.read(wanted, lambda text: _range(text.removeprefix(mark)))
    if mark and found.has("every"):
        every = found.read("a number from 1 on", words.count)
    if first is None and not mark:
        raise found.error("it ends too early; expected here: N, N-M or N+")
    try:
        return Passes(first or every or 1, last, every or 1)
    except LocalError as error:
        raise LocalError(f"rule, column {column}: {error}") from None


def _range(text: str) -> tuple[int, int | None]:
    if text.endswith("+"):
        return words.count(text[:-1]), None
    first, dash, last = text.partition("-")
    return words.count(first), words.count(last) if dash else words.count(first)
