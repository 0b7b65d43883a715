"""LP: lossless peer races."""

from toolkit.scenarios.scenario import Family

LP = Family("LP", "Lossless peer races")
