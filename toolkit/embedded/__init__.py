"""A small Ceph cluster for unmodified Ceph clients: msgrlab's own monitor, and OSDs that keep objects in memory.

``mon/`` and ``osd/`` are the two daemons, ``node/`` is the program that runs one of them. docs/embedded.md lists
what they support.
"""
