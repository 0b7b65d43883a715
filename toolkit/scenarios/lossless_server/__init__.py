"""LS: lossless server and standby."""

from toolkit.scenarios.scenario import Family

LS = Family("LS", "Lossless server and standby")
