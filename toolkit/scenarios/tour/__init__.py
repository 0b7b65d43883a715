"""TOUR: Reconnect, standby, session reset."""

from toolkit.scenarios.scenario import Family

TOUR = Family("TOUR", "Reconnect, standby, session reset")
