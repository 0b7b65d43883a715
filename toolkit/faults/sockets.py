"""Sockets of a proxy: of IPv4 and IPv6, and opened in any network namespace."""

import socket
import struct
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from messenger.errors import LocalError
from toolkit.machine.ports import reserved_socket
from toolkit.network.redirect import MARK

T = TypeVar("T")

Endpoint = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Address family, and an address as its sockets take it."""

_SO_ORIGINAL_DST = 80
"""linux/netfilter_ipv4.h; of IPv6 it has the same number, below SOL_IPV6."""
_SOL_IPV6 = 41
_SOCKADDR = {socket.AF_INET: struct.Struct("!2xH4s8x"), socket.AF_INET6: struct.Struct("!2xH4x16s4x")}


class Inside(Protocol):
    """Runs a function in a place such as a network namespace; sockets that it opens stay there."""

    def __call__(self, what: Callable[[], T], /) -> T:
        """Run the function and return its result."""


def here(what: Callable[[], T], /) -> T:
    """Run a function in this process's own namespace."""
    return what()


def resolved(host: str, port: int) -> Endpoint:
    """Resolve HOST, PORT; returns the first address.

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
    """Return a bound socket that does not listen yet; for port 0 see ``reserved_socket``.

    Raises:
        OSError: the address is not local, or the port is in use.
    """
    if not port:
        return reserved_socket(host)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        # Earlier connections of the port may still be in TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except (OSError, OverflowError):
        sock.close()
        raise
    return sock


def dialling_socket(family: socket.AddressFamily, *, beyond_redirection: bool = False) -> socket.socket:
    """Return a socket to connect with from an event loop.

    Args:
        family: family of the address to dial.
        beyond_redirection: True to exempt it from redirection (:mod:`toolkit.network.redirect`); needs root.
    """
    sock = socket.socket(family)
    if beyond_redirection:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    sock.setblocking(False)
    return sock


def original_target(sock: socket.socket) -> Endpoint:
    """Return the destination of a connection before it was redirected to the socket that accepted it.

    Raises:
        OSError: it was not redirected.
    """
    layout = _SOCKADDR[sock.family]
    level = socket.SOL_IP if sock.family == socket.AF_INET else _SOL_IPV6
    port, packed = layout.unpack(sock.getsockopt(level, _SO_ORIGINAL_DST, layout.size))
    return sock.family, (socket.inet_ntop(sock.family, packed), port)
