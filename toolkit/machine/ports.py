"""Ports of loopback, each given out once."""

import socket

from messenger.errors import LocalError

_NEARBY = 500
"""So many ports above the last one are looked at for one that is free."""


def reserved_socket(host: str, port: int = 0) -> socket.socket:
    """A bound socket that does not listen: it keeps a port, which sockets with SO_REUSEADDR may bind as well.

    Args:
        host: an address of this machine.
        port: which port; a free one unless given.

    Raises:
        OSError: the port is in use.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.bind((host, port))
    except (OSError, OverflowError):
        reserved.close()
        raise
    # Only now: with it, the kernel would assign a port that another process has reserved in this way.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return reserved


class Ports:
    """Ports of this machine that go up: addresses of nodes decide connection races, as they do in simulation."""

    def __init__(self) -> None:
        self._reserved: list[socket.socket] = []
        self._last = 0

    def reserve(self, host: str) -> int:
        """A free port above the one before, kept as :func:`reserved_socket` does.

        Raises:
            LocalError: there is none near it.
        """
        for port in (*range(self._last + 1, self._last + _NEARBY), 0) if self._last else (0,):
            try:
                reserved = reserved_socket(host, port)
            except (OSError, OverflowError):
                continue
            self._reserved.append(reserved)
            self._last = reserved.getsockname()[1]
            return self._last
        raise LocalError(f"no port to be had on {host}")

    def release(self, port: int) -> None:
        """Give one of them back."""
        for reserved in [each for each in self._reserved if each.getsockname()[1] == port]:
            self._reserved.remove(reserved)
            reserved.close()

    def close(self) -> None:
        """Give all of them back."""
        for reserved in self._reserved:
            reserved.close()
        self._reserved.clear()
