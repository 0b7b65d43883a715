"""Conformance of an implementation of Ceph's messenger: cases that a scripted peer runs against an address.

A case (``case.py``) is a short function over an :class:`~toolkit.conformance.attempt.Attempt`: it opens links,
sends what the title says, and returns the outcome as a word. Which outcomes are right, and which are those of
classic, crimson or the kernel, stands beside it as data. ``cases/`` has a file per area, ``runner.py`` runs them.
``results.py`` is the way in from Python and notebooks.
"""

from toolkit.conformance.results import Results, kept, try_address

__all__ = ["Results", "kept", "try_address"]
