"""TH: throttling and back-pressure."""

from toolkit.scenarios.scenario import Family

TH = Family("TH", "Throttling and back-pressure")
