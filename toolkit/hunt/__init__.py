"""The interception grid on links between Ceph's own clients and daemons."""

from toolkit.hunt.cells import Cell, LinkKind, Verdict, cells
from toolkit.hunt.runner import Hunt, Outcome

__all__ = ["Cell", "Hunt", "LinkKind", "Outcome", "Verdict", "cells"]
