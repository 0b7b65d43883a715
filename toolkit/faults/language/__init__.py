"""The words for what can be done to a cluster: one language for commands, timelines, chaos and Python.

``parse("partition a b --one-way")`` is a fault, a plain value; ``str`` of it is that text again. :class:`Scene` is
a cluster as faults see it: does them, knows which of them last, and undoes them. docs/faults.md has every word.
"""

from toolkit.faults.language import messengers, network, processes, rdma  # every word is known from here on
from toolkit.faults.language.fault import Area, Fault, Undo, Word, parse, words
from toolkit.faults.language.scene import Scene

__all__ = [
    "Area",
    "Fault",
    "Scene",
    "Undo",
    "Word",
    "messengers",
    "network",
    "parse",
    "processes",
    "rdma",
    "words",
]
