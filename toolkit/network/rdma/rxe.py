"""Create and remove soft-RoCE devices, read their addresses, and check that packets reach them."""

import threading
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


class Removal:
    """The removal of a soft-RoCE device that programs may have open.

    No program can open it from now on. The kernel destroys it when the last program has closed it, and answers the
    request only then, so that a thread makes it.

    Args:
        name: name of the device.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._failure: LocalError | None = None
        self._thread = threading.Thread(target=self._remove, name=f"removal of {name}", daemon=True)
        self._thread.start()

    def _remove(self) -> None:
        try:
            rdma.remove_rxe(self._name)
        except LocalError as error:
            self._failure = error

    def wait(self, timeout_s: float) -> bool:
        """Wait until the device is destroyed; returns False if programs have had it open for that long.

        Raises:
            LocalError: the kernel refuses to remove it.
        """
        self._thread.join(timeout_s)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()


def gid(name: str, index: int) -> bytes:
    """Return the 16 bytes of an entry of a device's table of addresses (GIDs); zeros if it is empty.

    Raises:
        LocalError: there is no such device or entry.
    """
    path = Path(f"/sys/class/infiniband/{name}/ports/1/gids/{index}")
    try:
        return bytes.fromhex(path.read_text("ascii").strip().replace(":", ""))
    except FileNotFoundError:
        raise LocalError(f"RDMA device {name}: there is no such device, or it has no address {index}") from None


def is_receiving() -> bool:
    """True if soft-RoCE receives packets in this thread's network namespace, where its UDP socket has to exist."""
    for path in _SOCKETS:
        if path.exists():
            for line in path.read_text("ascii").splitlines()[1:]:
                if int(line.split()[_LOCAL_ADDRESS].rpartition(":")[2], 16) == _ROCE_V2_PORT:
                    return True
    return False
