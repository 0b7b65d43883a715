"""NF: network faults."""

from toolkit.scenarios.scenario import Family

NF = Family("NF", "Network faults")
