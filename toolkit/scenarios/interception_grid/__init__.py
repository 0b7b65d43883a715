"""GRID: interception grid."""

from toolkit.scenarios.scenario import Family

GRID = Family("GRID", "Interception grid")
