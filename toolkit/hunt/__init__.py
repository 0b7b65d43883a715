"""The interception grid on links between Ceph's own clients and daemons."""

from toolkit.hunt.cells import Cell, Link, Verdict, cells
from toolkit.hunt.runner import Hunt, Outcome

__all__ = ["Cell", "Hunt", "Link", "Outcome", "Verdict", "cells"]
