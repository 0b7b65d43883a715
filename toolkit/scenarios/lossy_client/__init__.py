"""LY: lossy client and stateless server."""

from toolkit.scenarios.scenario import Family

LY = Family("LY", "Lossy client and stateless server")
