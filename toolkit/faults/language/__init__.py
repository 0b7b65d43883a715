"""The fault language, shared by the command line, timelines, chaos and Python (docs/faults.md lists all words).

::

    fault = parse("partition a b --one-way")  # a plain value
    str(fault)  # "partition a b --one-way"

:class:`Scene` starts and reverts the faults of a cluster, and keeps the list of those in force.
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
