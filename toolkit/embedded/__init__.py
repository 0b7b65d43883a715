"""A small Ceph cluster of ours that unmodified clients of Ceph can use: a monitor, and OSDs in memory.

``mon/`` and ``osd/`` are the two daemons, ``node/`` is the program that runs one of them.
docs/embedded.md lists what answers and what does not.
"""
