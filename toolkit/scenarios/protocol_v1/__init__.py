"""V1: protocol v1."""

from toolkit.scenarios.scenario import Family

V1 = Family("V1", "Protocol v1")
