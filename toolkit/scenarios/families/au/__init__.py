"""AU: authentication and cephx."""

from toolkit.scenarios.families.au import exchanges, methods, monitors, tickets
from toolkit.scenarios.families.au.family import AU

__all__ = ["AU", "exchanges", "methods", "monitors", "tickets"]
