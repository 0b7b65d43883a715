"""Create soft-RoCE devices, and check that packets reach them."""

from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine import rdma
from toolkit.machine.changes import RdmaLink
from toolkit.machine.journal import Journal

_ROCE_V2_PORT = 4791
_SOCKETS = (Path("/proc/thread-self/net/udp"), Path("/proc/thread-self/net/udp6"))
_LOCAL_ADDRESS = 1
"""Index of the local address in a line of these files."""


def create(name: str, interface: str, journal: Journal) -> rdma.RdmaDevice:
    """Create a soft-RoCE device on an interface; it is journalled first.

    Args:
        name: name of the device, for example ``rxe0``.
        interface: interface that carries its packets, in this thread's network namespace.
        journal: journal that undoes it after a crash.

    Raises:
        LocalError: there is a device of that name or on that interface, there is no such interface, or this user
            may not make devices.
        Unsupported: the kernel has no soft-RoCE.
    """
    if any(device.name == name for device in rdma.devices()):  # the journal must not remove that one
        raise LocalError(f"RDMA device {name} on {interface}: a device of that name exists already")
    change = RdmaLink(name)
    journal.note(change)
    try:
        rdma.add_rxe(name, interface)
    except LocalError:
        journal.take_back(change)
        raise
    return next(device for device in rdma.devices() if device.name == name)


def is_receiving() -> bool:
    """True if soft-RoCE receives packets in this thread's network namespace, where its UDP socket has to exist."""
    for path in _SOCKETS:
        if path.exists():
            for line in path.read_text("ascii").splitlines()[1:]:
                if int(line.split()[_LOCAL_ADDRESS].rpartition(":")[2], 16) == _ROCE_V2_PORT:
                    return True
    return False
