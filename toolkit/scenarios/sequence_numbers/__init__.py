"""SQ: replay, acknowledgements, sequence numbers."""

from toolkit.scenarios.scenario import Family

SQ = Family("SQ", "Replay, acknowledgements, sequence numbers")
