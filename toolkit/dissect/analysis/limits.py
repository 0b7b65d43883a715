"""How much of a capture is analysed: memory must not grow with what a hostile capture has."""

import os
from dataclasses import dataclass, field

FEWEST_FRAMES = 1 << 20
_FRAME_COST_BYTES = 1 << 11
"""Of a frame, at most, with its share of links, history and tables."""


def frames_that_fit() -> int:
    """How many frames half of this machine's memory is enough for; a million where that is less than 2 GiB."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(FEWEST_FRAMES, memory_bytes // 2 // _FRAME_COST_BYTES)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one analysis; by default it takes half of the machine's memory, or 2 GiB if that is more."""

    frames: int = field(default_factory=frames_that_fit)
    """The analysis ends behind so many frames."""

    @property
    def links(self) -> int:
        """The analysis ends before the link behind so many."""
        return max(self.frames >> 6, 1 << 16)

    @property
    def history_frames(self) -> int:
        """Charts and invariants take so many of the frames."""
        return max(self.frames >> 2, 1 << 18)
