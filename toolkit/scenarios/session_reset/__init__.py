"""RS: session reset."""

from toolkit.scenarios.scenario import Family

RS = Family("RS", "Session reset")
