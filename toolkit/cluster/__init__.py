"""Clusters of messengers, clients and Ceph daemons that run on this machine or in containers.

::

    with up("two-peers") as cluster:
        cluster.nodes["a"].command("send", peer="b", count=3)
"""

import lazy_loader

# __init__.pyi names the modules that define the public names; they are imported on first use.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
