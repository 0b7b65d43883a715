"""Conformance of an implementation of Ceph's messenger: cases that a scripted peer runs against an address.

A case (``case.py``) is a short function over an :class:`~toolkit.conformance.attempt.Attempt`: it opens links,
sends the bytes that its title describes, and returns the outcome as a short text. The case lists the outcomes that
the protocol allows, and the known deviations of classic, crimson and the kernel. ``cases/`` has a file per area,
``runner.py`` runs them. ``results.py`` is the interface for Python and notebooks.
"""

from toolkit.conformance.results import Results, kept, try_address

__all__ = ["Results", "kept", "try_address"]
