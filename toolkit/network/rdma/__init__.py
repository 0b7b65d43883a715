"""Soft-RoCE: RDMA devices (rxe) on ordinary network interfaces, for machines without RDMA hardware.

The kernel needs the module ``rdma_rxe``; ``msgrlab vm run`` boots one that has it (:mod:`toolkit.machine.vm`).

::

    from toolkit.network import rdma
    rdma.create("rxe0", "eth0", journal)
    rdma.devices()  # [RdmaDevice(index=0, name='rxe0', interface='eth0', is_active=True)]
    rdma.remove("rxe0")

The kernel shares devices between network namespaces by default (:func:`are_shared`): a device carries packets of
the namespace of its interface, and programs in every namespace see it. Older kernels, such as 6.1, receive packets
only in the initial namespace (:func:`is_receiving`).
"""

from toolkit.machine.rdma import RdmaDevice, are_shared, devices
from toolkit.machine.rdma import remove_rxe as remove
from toolkit.network.rdma.rxe import create, is_receiving

__all__ = ["RdmaDevice", "are_shared", "create", "devices", "is_receiving", "remove"]
