"""Rows of HS about what is said and agreed on before a session opens; those about faults are in hs.py."""

from toolkit.scenarios.families.handshake import openings, terms

__all__ = ["openings", "terms"]
