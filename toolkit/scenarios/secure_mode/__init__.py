"""SE: secure mode."""

from toolkit.scenarios.scenario import Family

SE = Family("SE", "Secure mode")
