"""What a placement group holds, and what has been done with it: OSDs count, the monitor shows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Any, NamedTuple, Self

from messenger.messages.pg import PgId

_PGID = re.compile(r"(\d{1,10})\.([0-9a-f]{1,8})")


def parse_pgid(text: str) -> PgId | None:
    """Return the placement group of a text as ``1.1f``; None if it has another form."""
    match = _PGID.fullmatch(text)
    return PgId(int(match[1]), int(match[2], 16)) if match else None


@dataclass(frozen=True, slots=True)
class Usage:
    """Counters of a placement group, or sums of several."""

    objects: int = 0
    """Number of objects with clones."""
    size_bytes: int = 0
    """Size of all of them, without attributes and omap."""
    clones: int = 0
    omap_objects: int = 0
    """Number of objects that have omap keys."""
    omap_keys: int = 0
    omap_bytes: int = 0
    """Size of the keys with their values."""
    reads: int = 0
    """Operations that read, since the OSD started."""
    read_kb: int = 0
    """Their results; those of each operation rounded up to 1024 bytes."""
    writes: int = 0
    """Operations that changed something, since the OSD started."""
    write_kb: int = 0
    """Their inputs; those of each operation rounded up to 1024 bytes."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, self.counters(), other.counters()))

    def counters(self) -> tuple[int, ...]:
        """Return the counters in their order."""
        return _counters(self)


_counters = attrgetter(*(counter.name for counter in fields(Usage)))


class Scrub(NamedTuple):
    """A scrub of a placement group."""

    version: int
    """Number of changes of the group until then."""
    epoch: int
    """Epoch of the OSD's map at the last of these changes."""
    at_s: float
    """Unix time."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """What an OSD reports of a placement group whose primary it is or was."""

    use: Usage
    version: int = 0
    """Number of changes so far."""
    epoch: int = 0
    """Epoch of the OSD's map at the last change."""
    scrub: Scrub | None = None
    """The last scrub; None: there was none since the OSD started."""
    deep_scrub: Scrub | None = None
    """The last deep scrub."""
    errors: int = 0
    """Errors that the last scrub found."""

    def value(self) -> list[Any]:
        """Return the state as JSON."""
        return [self.use.counters(), self.version, self.epoch, self.scrub, self.deep_scrub, self.errors]

    @classmethod
    def from_value(cls, value: Iterable[Any]) -> Self:
        """Return the state for what :meth:`value` returned."""
        use, version, epoch, scrub, deep_scrub, errors = value
        last, last_deep = (Scrub(*each) if each is not None else None for each in (scrub, deep_scrub))
        return cls(Usage(*use), version, epoch, last, last_deep, errors)
