"""HS: handshake."""

from toolkit.scenarios.scenario import Family

HS = Family("HS", "Handshake")
