"""Where the proxy acts: at frames of a kind from a sender, at their n-th pass, or every time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from messenger.errors import LocalError
from toolkit.dissect.follow import SeenFrame


@dataclass(frozen=True, slots=True)
class Passes:
    """Which of what is counted from 1.

    Raises:
        LocalError: there are none such.
    """

    first: int = 1
    last: int | None = None
    """None: there is no end."""
    every: int = 1
    """From the first one on, each of so many."""

    def __post_init__(self) -> None:
        if self.first < 1:
            raise LocalError(f"#{self.first}: counted from 1")
        if self.last is not None and self.last < self.first:
            raise LocalError(f"#{self.first}-{self.last}: the last comes before the first")
        if self.every < 1:
            raise LocalError(f"every {self.every}: at least every 1")

    def __contains__(self, number: int) -> bool:
        return self.first <= number and not self.over(number) and (number - self.first) % self.every == 0

    def over(self, number: int) -> bool:
        """True if neither this frame nor a later one can match."""
        return self.last is not None and number > self.last


ALL = Passes()


@dataclass(slots=True)
class Strike:
    """At a frame, once, unless ``passes`` say otherwise.

    ``sender`` is the node whose frame it is (empty: either), ``tag`` the frame's name (``BANNER`` for the banner;
    ``*`` and ``?`` stand for any), ``nth`` which of them counted from 1 over all links since the strike was set.
    """

    sender: str
    tag: str
    nth: int = 1
    passes: Passes | None = field(default=None, kw_only=True)
    """Instead of the ``nth`` one, where given."""
    links: Passes = field(default=ALL, kw_only=True)
    """Of which links, counted by their first frames since the strike was set."""
    per_link: bool = field(default=False, kw_only=True)
    """Frames are counted on each link separately."""
    accepts: Callable[[SeenFrame], bool] | None = field(default=None, kw_only=True)
    """What else must be true of the frame, before it is counted."""
    hit: SeenFrame | None = field(default=None, compare=False, kw_only=True)
    """The frame, once it was struck; the last one of several."""
    hits: int = field(default=0, compare=False, kw_only=True)
    """How often it has struck."""
    number: int = field(default=0, compare=False, kw_only=True)
    """Which of the frames that were counted the hit was."""
    _seen: dict[int, int] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    """Frames counted, by link where that matters."""
    _any: bool = field(default=False, compare=False, repr=False, kw_only=True)
    """The tag stands for several."""
    _links: dict[int, int] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    """The number of each link."""

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise LocalError(f"nth={self.nth} {self.tag}: counted from 1")
        if self.passes is None:
            self.passes = Passes(self.nth, self.nth)
        self._any = any(character in self.tag for character in "*?")

    def matches(self, sender: str, frame: SeenFrame) -> bool:
        """True if the frame matches; counts the ones before it."""
        if self.spent:
            return False
        link = self._links.setdefault(frame.link, len(self._links) + 1)
        if self.sender not in {"", sender} or not self._is_tag(frame.tag):
            return False
        if link not in self.links or not (self.accepts is None or self.accepts(frame)):
            return False
        counted = link if self.per_link else 0
        self._seen[counted] = number = self._seen.get(counted, 0) + 1
        if self.passes is not None and number not in self.passes:
            return False
        self.hit, self.number = frame, number
        self.hits += 1
        return True

    @property
    def spent(self) -> bool:
        """True if it will not strike again, so that frames need not be parsed for it."""
        passes = self.passes
        return passes is not None and not self.per_link and passes.over(self._seen.get(0, 0) + 1)

    @property
    def place(self) -> str:
        """Where it strikes, in words."""
        return f"{self.tag} #{self.nth}{f' from {self.sender}' if self.sender else ''}"

    def _is_tag(self, tag: str) -> bool:
        return tag == self.tag or (self._any and fnmatchcase(tag, self.tag))
