"""Clusters of nodes: ours, and real daemons of Ceph. ``with up("two-peers") as cluster:`` is one."""

import lazy_loader

# The names and their homes are in __init__.pyi; importing the package costs nothing until one is used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
