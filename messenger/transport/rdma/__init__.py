"""RDMA like Ceph's ``async+rdma``: a byte stream over a reliable queue pair (docs/protocol.md §8, docs/rdma.md).

::

    from messenger.config import Config
    from messenger.messenger import Messenger

    Messenger(config=Config(ms_type="async+rdma", ms_async_rdma_device_name="rxe0", ms_async_rdma_gid_idx=1))
"""
