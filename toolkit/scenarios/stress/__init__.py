"""ST: stress."""

from toolkit.scenarios.scenario import Family

ST = Family("ST", "Stress")
