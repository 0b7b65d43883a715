"""More rows of LY, LC, LS and LP: what sessions live through, and what they leave."""

from toolkit.scenarios.families.life import disputed, handover, lossless, lossy, races, standby, stress

MODULES = (lossy, lossless, standby, races, disputed, handover, stress)
"""Each adds to the families it names."""
