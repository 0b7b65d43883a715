"""LG: large messages and the edges of segments."""

from toolkit.scenarios.scenario import Family

LG = Family("LG", "Large messages and the edges of segments")
