"""Rows of several families whose peer is spoken by hand."""

from toolkit.scenarios.families.by_hand import (
    numbers,
    resets,
    returning,
    three_dials,
    v1_opening,
    v1_races,
    v1_stream,
)

__all__ = ["numbers", "resets", "returning", "three_dials", "v1_opening", "v1_races", "v1_stream"]
