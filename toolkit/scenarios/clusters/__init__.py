"""CL: clusters."""

from toolkit.scenarios.scenario import Family

CL = Family("CL", "Clusters")
