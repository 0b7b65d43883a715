"""V1: msgr v1."""

from toolkit.scenarios.scenario import Family

V1 = Family("V1", "Protocol v1")
