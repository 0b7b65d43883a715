"""GRID: the interception grid, point by point and action by action."""

from toolkit.scenarios.scenario import Family

GRID = Family("GRID", "Interception grid")
