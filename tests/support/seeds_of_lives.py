"""The seeds of lives that tests run, each in one test: a life is the same every time."""

from collections.abc import Iterator

from toolkit.simulation.swarm import draw

FIRST = range(150)
LATER = range(150, 2_000)
MOTIFS_END = 1_500
RARE = (23861, 29284, 31678, 32964, 36977, 37728, 45297)
"""Lives in which faults meet that seldom do: one life of several thousands."""


def with_motif() -> Iterator[int]:
    """Yield the later seeds below ``MOTIFS_END`` with a motif, some 400."""
    return (seed for seed in range(LATER.start, MOTIFS_END) if _has_motif(seed))


def others(first: int, end: int) -> list[int]:
    """Return the seeds in a part of the later ones that :func:`with_motif` does not yield."""
    return [seed for seed in range(first, end) if seed >= MOTIFS_END or not _has_motif(seed)]


def _has_motif(seed: int) -> bool:
    return draw(seed)[0].motif is not None
