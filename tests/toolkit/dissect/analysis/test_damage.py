"""Captures with lost, repeated, reordered or changed packets yield no violation: none of the originals has one."""

from pathlib import Path

import pytest

from tests.support.damage import false_verdicts


@pytest.mark.parametrize(
    ("name", "kind", "seed"),
    [
        ("reef-compressed", "flipped", 76727541),
        ("nautilus-daemons", "dropped", 2709900430),
        ("reef-compressed-lz4", "dropped", 3629328566),
        ("tentacle-none", "beginning", 815398389),
        ("nautilus-daemons", "snapped", 2325348894),
        ("pacific-osds", "snapped", 1689017785),
        ("nautilus-v1", "snapped", 159352783),
        ("tentacle-daemons", "reordered", 4277859672),
        ("reef-compressed", "reordered", 127114489),
        ("reef-compressed-lz4", "dropped", 3708715555),
    ],
)
def test_damage_is_no_violation(tmp_path: Path, name: str, kind: str, seed: int) -> None:
    assert false_verdicts(tmp_path, name, kind, seed) == []
