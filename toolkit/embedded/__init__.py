"""A small Ceph cluster that unmodified Ceph clients can use: msgrlab's own monitor, and OSDs in memory.

``mon/`` and ``osd/`` are the two daemons, ``node/`` is the program that runs one of them. docs/embedded.md lists
what they support.
"""
