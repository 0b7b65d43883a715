"""Limits of an analysis, so that a hostile capture cannot exhaust the memory."""

import os
from dataclasses import dataclass, field

FEWEST_FRAMES = 1 << 20
_FRAME_COST_BYTES = 1 << 11
"""Upper bound of the memory per frame, with its share of links, history and tables."""


def frames_that_fit() -> int:
    """Return the number of frames that fit into half of the machine's memory, at least a million."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(FEWEST_FRAMES, memory_bytes // 2 // _FRAME_COST_BYTES)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one analysis. By default it uses half of the machine's memory, or 2 GiB if that is more."""

    frames: int = field(default_factory=frames_that_fit)
    """Number of frames after which the analysis stops."""

    @property
    def links(self) -> int:
        """Number of links; the analysis stops before the next one."""
        return max(self.frames >> 6, 1 << 16)

    @property
    def history_frames(self) -> int:
        """Number of frames in charts and invariants."""
        return max(self.frames >> 2, 1 << 18)
