"""PK: processes killed and paused."""

from toolkit.scenarios.scenario import Family

PK = Family("PK", "Processes killed and paused")
