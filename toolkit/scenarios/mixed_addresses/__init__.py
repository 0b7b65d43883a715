"""MX: mixed v1 and v2 addresses, learning one's own."""

from toolkit.scenarios.scenario import Family

MX = Family("MX", "Mixed v1 and v2 addresses, learning one's own")
