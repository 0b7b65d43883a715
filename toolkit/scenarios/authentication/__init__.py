"""AU: authentication and cephx."""

from toolkit.scenarios.scenario import Family

AU = Family("AU", "Authentication and cephx")
