"""Ports on loopback, each assigned once."""

import socket

from messenger.errors import LocalError

_NEARBY = 500
"""Number of ports above the last one to try."""


def reserved_socket(host: str, port: int = 0) -> socket.socket:
    """Return a bound socket that does not listen: it reserves a port that sockets with SO_REUSEADDR may bind.

    Args:
        host: an address of this machine.
        port: the port; a free one unless given.

    Raises:
        OSError: the port is in use.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.bind((host, port))
    except (OSError, OverflowError):
        reserved.close()
        raise
    # After bind: before, it would let the kernel assign a port that another process has reserved in this way.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return reserved


class Ports:
    """Ascending ports: as in simulation, the order of nodes' addresses decides connection races."""

    def __init__(self) -> None:
        self._reserved: list[socket.socket] = []
        self._last = 0

    def reserve(self, host: str) -> int:
        """Reserve a free port above the last one, as :func:`reserved_socket` does.

        Raises:
            LocalError: there is no free one near it.
        """
        for port in (*range(self._last + 1, self._last + _NEARBY), 0) if self._last else (0,):
            try:
                reserved = reserved_socket(host, port)
            except (OSError, OverflowError):
                continue
            self._reserved.append(reserved)
            self._last = reserved.getsockname()[1]
            return self._last
        raise LocalError(f"no free port on {host}")

    def release(self, port: int) -> None:
        """Release a port."""
        for reserved in [each for each in self._reserved if each.getsockname()[1] == port]:
            self._reserved.remove(reserved)
            reserved.close()

    def close(self) -> None:
        """Release all ports."""
        for reserved in self._reserved:
            reserved.close()
        self._reserved.clear()
