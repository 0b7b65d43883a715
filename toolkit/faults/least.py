"""The least of a schedule that still fails (Zeller's ddmin)."""

from collections.abc import Callable, Sequence


def least(
    candidates: Sequence[int], still_fails: Callable[[Sequence[int]], bool], most_runs: int
) -> tuple[list[int], int]:
    """A subset that still fails, and none of whose parts that were tried does (Zeller's ddmin).

    Args:
        candidates: what fails as a whole.
        still_fails: whether a part of it fails.
        most_runs: after so many questions the least so far is the answer.

    Returns:
        The subset, in order, and how many questions it took.
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
