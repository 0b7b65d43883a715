"""Which frames the proxy acts on: those of a tag and a sender, at certain passes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from messenger.errors import LocalError
from toolkit.dissect.follow import SeenFrame


@dataclass(frozen=True, slots=True)
class Passes:
    """A set of numbers that count from 1.

    Raises:
        LocalError: the set is empty.
    """

    first: int = 1
    last: int | None = None
    """Last number; None for no end."""
    every: int = 1
    """Step: 2 selects every second number from the first one on."""

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
        """True if neither this number nor a later one is in the set."""
        return self.last is not None and number > self.last


ALL = Passes()


@dataclass(slots=True)
class Strike:
    """Matches frames and acts on them, once unless ``passes`` has more numbers.

    ``sender`` is the party that sent the frame (empty: either), ``tag`` the frame's name (``BANNER`` for the
    banner; with the wildcards ``*`` and ``?``), ``nth`` the number of the matching frame, counted from 1 over all
    links since the strike was set.
    """

    sender: str
    tag: str
    nth: int = 1
    passes: Passes | None = field(default=None, kw_only=True)
    """Numbers of the matching frames to act on; overrides ``nth``."""
    links: Passes = field(default=ALL, kw_only=True)
    """Numbers of the links to act on, in the order of their first frames since the strike was set."""
    per_link: bool = field(default=False, kw_only=True)
    """True to count frames on each link separately."""
    accepts: Callable[[SeenFrame], bool] | None = field(default=None, kw_only=True)
    """Further condition on the frame; rejected frames are not counted."""
    hit: SeenFrame | None = field(default=None, compare=False, kw_only=True)
    """The last frame that it acted on; None before."""
    hits: int = field(default=0, compare=False, kw_only=True)
    """Number of frames that it acted on."""
    number: int = field(default=0, compare=False, kw_only=True)
    """Number of the hit among the counted frames."""
    _seen: dict[int, int] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    """Number of counted frames, by link if ``per_link``, else under 0."""
    _any: bool = field(default=False, compare=False, repr=False, kw_only=True)
    """True if the tag has wildcards."""
    _links: dict[int, int] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    """Number of each link."""

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise LocalError(f"nth={self.nth} {self.tag}: counted from 1")
        if self.passes is None:
            self.passes = Passes(self.nth, self.nth)
        self._any = any(character in self.tag for character in "*?")

    def matches(self, sender: str, frame: SeenFrame) -> bool:
        """Count a frame; returns True if the strike acts on it."""
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
        """True if it cannot match again, so that frames need not be parsed for it."""
        passes = self.passes
        return passes is not None and not self.per_link and passes.over(self._seen.get(0, 0) + 1)

    @property
    def place(self) -> str:
        """Tag, number and sender of its frame, in words."""
        return f"{self.tag} #{self.nth}{f' from {self.sender}' if self.sender else ''}"

    def _is_tag(self, tag: str) -> bool:
        return tag == self.tag or (self._any and fnmatchcase(tag, self.tag))
