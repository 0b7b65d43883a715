"""The interception grid on links between real clients and real daemons."""

from toolkit.hunt.cells import Cell, Link, Verdict, cells
from toolkit.hunt.runner import Hunt, Outcome

__all__ = ["Cell", "Hunt", "Link", "Outcome", "Verdict", "cells"]
