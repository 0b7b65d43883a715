"""KA: keepalive, idle, timeouts."""

from toolkit.scenarios.scenario import Family

KA = Family("KA", "Keepalive, idle, timeouts")
