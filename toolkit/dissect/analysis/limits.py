"""How much of a capture is analysed: memory must not grow with what a hostile capture has."""

from dataclasses import dataclass

MOST_FRAMES = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one analysis; by default it takes less than 2 GiB of memory."""

    frames: int = MOST_FRAMES
    """The analysis ends behind so many frames."""

    @property
    def links(self) -> int:
        """The analysis ends before the link behind so many."""
        return max(self.frames >> 4, 1 << 16)

    @property
    def history_frames(self) -> int:
        """Charts and invariants take so many of the frames."""
        return max(self.frames >> 2, 1 << 18)
