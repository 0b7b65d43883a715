"""Delta debugging: shrink a failing schedule (Zeller's ddmin)."""

from collections.abc import Callable, Sequence


def least(
    candidates: Sequence[int], still_fails: Callable[[Sequence[int]], bool], most_runs: int
) -> tuple[list[int], int]:
    """Return a subset that still fails and cannot be shrunk by the parts that were tried (Zeller's ddmin).

    Args:
        candidates: elements that fail together.
        still_fails: returns True if a subset fails.
        most_runs: most calls of ``still_fails``; then the smallest subset so far is returned.

    Returns:
        The subset, in order, and the number of calls.
    """
    kept, parts, runs = list(candidates), 2, 0
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if runs == most_runs:
                return kept, runs
            runs += 1
            if still_fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept, runs
