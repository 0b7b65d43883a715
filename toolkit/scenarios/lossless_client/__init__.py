"""LC: lossless client."""

from toolkit.scenarios.scenario import Family

LC = Family("LC", "Lossless client")
