"""SE: secure mode."""

from toolkit.scenarios.families.se import keys, tampering
from toolkit.scenarios.families.se.family import SE

__all__ = ["SE", "keys", "tampering"]
