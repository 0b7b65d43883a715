"""Shortens long charts: folds runs of similar frames, marks silences, and limits the number of rows."""

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise

from toolkit.checks.records import MESSAGE_TAGS
from toolkit.report.rows import Arrow, Gap, Row
from toolkit.report.text import duration

FOLDED_TAGS = MESSAGE_TAGS | {"ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK"}
"""Frames of the data phase, which look alike."""

_STRETCH = 4
"""Length of the longest run of equal frames that is shown frame by frame."""


def fold_frames(rows: list[Row], longest_run: int) -> list[Row]:
    """Fold runs of data frames.

    A stretch of the same frame in the same direction keeps its first and last frame. If the run around it is still
    longer than ``longest_run``, its ends are kept and the middle becomes one row per direction, tag and fate.
    """
    folded: list[Row] = []
    for is_data, run in groupby(rows, _is_data):
        if not is_data:
            folded += run
            continue
        arrows = [arrow for arrow in _fold_stretches(run) if isinstance(arrow, Arrow)]
        folded += arrows if len(arrows) <= longest_run else _fold_middle(arrows, longest_run // 3)
    return folded


def _is_data(row: Row) -> bool:
    return isinstance(row, Arrow) and row.tag in FOLDED_TAGS


def _key(arrow: Row) -> tuple[str, ...]:
    assert isinstance(arrow, Arrow)
    return arrow.source, arrow.target, arrow.tag, arrow.fate


def _fold_stretches(run: Iterable[Row]) -> Iterator[Row]:
    for _, group in groupby(run, _key):
        stretch = [arrow for arrow in group if isinstance(arrow, Arrow)]
        if len(stretch) <= _STRETCH:
            yield from stretch
        else:
            yield stretch[0]
            yield _together(stretch[1:-1])
            yield stretch[-1]


def _fold_middle(arrows: list[Arrow], keep: int) -> list[Row]:
    middle: dict[tuple[str, ...], list[Arrow]] = {}
    for arrow in arrows[keep:-keep]:
        middle.setdefault(_key(arrow), []).append(arrow)
    return [*arrows[:keep], *map(_together, middle.values()), *arrows[-keep:]]


def _together(arrows: list[Arrow]) -> Arrow:
    first, last = arrows[0], arrows[-1]
    count = sum(arrow.count for arrow in arrows)
    if count == 1:
        return first
    seqs = [seq for arrow in arrows if arrow.seqs for seq in arrow.seqs]
    detail = f"seq {min(seqs)}-{max(seqs)}" if seqs else ""
    story = [
        f"{count} frames {first.tag} {first.source} → {first.target}, {first.fate}",
        f"from {first.time_s:.6f} s to {last.time_s:.6f} s",
        detail,
    ]
    return Arrow(
        first.time_s,
        first.source,
        first.target,
        first.tag,
        detail,
        first.fate,
        tip="\n".join(filter(None, story)),
        seqs=(min(seqs), max(seqs)) if seqs else None,
        count=count,
    )


def mark_silences(rows: list[Row], at_least_s: float) -> list[Row]:
    """Insert a gap wherever nothing happened for at least ``at_least_s`` seconds."""
    marked: list[Row] = rows[:1]
    for before, after in pairwise(rows):
        silence_s = after.time_s - before.time_s
        if silence_s >= at_least_s and not isinstance(before, Gap):
            marked.append(Gap(before.time_s, f"{duration(silence_s)} of silence"))
        marked.append(after)
    return marked


def cap(rows: list[Row], most: int) -> list[Row]:
    """Omit middle rows if there are more than ``most``; the end, where failures show, keeps the larger part."""
    if len(rows) <= most:
        return rows
    head = most // 3
    tail = most - head
    left_out = rows[head:-tail]
    return [*rows[:head], Gap(left_out[0].time_s, f"{len(left_out):,} more rows"), *rows[-tail:]]
