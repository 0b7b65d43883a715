"""IX: interoperation."""

from toolkit.scenarios.scenario import Family

IX = Family("IX", "Interoperation")
