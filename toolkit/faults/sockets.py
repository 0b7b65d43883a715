"""The sockets of a proxy: at any address of IPv4 and IPv6, and opened wherever it is said they belong."""

import socket
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from messenger.errors import LocalError
from toolkit.ports import reserved_socket

T = TypeVar("T")

Endpoint = tuple[socket.AddressFamily, tuple[Any, ...]]
"""An address as sockets of its family take it."""


class Inside(Protocol):
    """Does something in a place, such as a network namespace; the sockets that are opened there stay there."""

    def __call__(self, what: Callable[[], T], /) -> T:
        """Do it, and give back what it gives."""


def here(what: Callable[[], T], /) -> T:
    """Where this process is."""
    return what()


def resolved(host: str, port: int) -> Endpoint:
    """Where HOST, PORT can be dialled; of several addresses the first.

    Raises:
        LocalError: there is no such host or port.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, OverflowError, UnicodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "no such address"
        raise LocalError(f"target {host} port {port}: {why}") from None
    return family, address


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound there, which does not listen yet; a free port is kept from others (see ``reserved_socket``).

    Raises:
        OSError: the address is not ours, or the port in use.
    """
    if not port:
        return reserved_socket(host)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        # Connections of an earlier life of the port may still be in TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except (OSError, OverflowError):
        sock.close()
        raise
    return sock


def dialling_socket(family: socket.AddressFamily) -> socket.socket:
    """A socket to dial with from an event loop."""
    sock = socket.socket(family)
    sock.setblocking(False)
    return sock
