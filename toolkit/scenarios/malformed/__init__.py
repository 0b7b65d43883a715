"""MF: malformed frames."""

from toolkit.scenarios.scenario import Family

MF = Family("MF", "Malformed frames")
