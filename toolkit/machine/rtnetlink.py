"""A connection to the kernel's network configuration (rtnetlink)."""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_HEAD = struct.Struct("=IHHII")
"""Header of a message: length, type, flags, number, port."""
_ENTRY = struct.Struct("=B3xiHBB")
"""Header of a neighbour: family, interface, state, flags, type."""
_ANSWER = struct.Struct("=IHHIIi")
"""Header and error of an answer."""
_ANSWER_BYTES = 1 << 16
_AT_ONCE = 256
"""Most entries in a request."""
_NLMSG_ERROR = 2
_NLM_F_ACK = 0x4
_ADD = 0x1 | 0x100 | 0x400
"""NLM_F_REQUEST, NLM_F_REPLACE and NLM_F_CREATE."""
_RTM_NEWNEIGH = 28
_NDA_DST, _NDA_LLADDR = 1, 2
_PERMANENT = 0x80
"""NUD_PERMANENT."""


@contextmanager
def rtnetlink() -> Iterator["IPRoute"]:
    """Connect to the kernel in the network namespace of this thread.

    pyroute2 uses an event loop that runs in this thread as its own, and then cannot wait for replies. Notebooks
    always run one, so it is hidden for the duration of the ``with`` block.
    """
    import asyncio.events as loops

    from pyroute2 import IPRoute

    running = loops._get_running_loop()  # noqa: SLF001 - exported, to run one loop inside another
    loops._set_running_loop(None)  # noqa: SLF001
    try:
        with IPRoute() as route:
            yield route
    finally:
        loops._set_running_loop(running)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A permanent entry of a neighbour table: an address that needs no resolution."""

    interface: int
    """Index of the interface."""
    address: IPv4Address | IPv6Address
    mac: str


def set_neighbours(neighbours: Sequence[Neighbour]) -> None:
    """Add or replace entries of the neighbour table in the network namespace of this thread.

    All are one request to the kernel: in a large network every host knows every other one.

    Raises:
        OSError: the kernel rejects an entry.
    """
    if not neighbours:
        return
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        for first in range(0, len(neighbours), _AT_ONCE):
            part = neighbours[first : first + _AT_ONCE]
            flags = [_ADD] * (len(part) - 1) + [_ADD | _NLM_F_ACK]
            kernel.send(b"".join(map(_entry, part, flags)))
            # The kernel reports every error; the acknowledgement of the last one means that there was none.
            _, kind, _, _, _, error = _ANSWER.unpack_from(kernel.recv(_ANSWER_BYTES))
            if kind != _NLMSG_ERROR or error:
                raise OSError(-error, os.strerror(-error))


def _entry(neighbour: Neighbour, flags: int) -> bytes:
    """Return the request for an entry (RTM_NEWNEIGH)."""
    family = socket.AF_INET if neighbour.address.version == 4 else socket.AF_INET6
    head = _ENTRY.pack(family, neighbour.interface, _PERMANENT, 0, 0)
    body = head + _attribute(_NDA_DST, neighbour.address.packed)
    body += _attribute(_NDA_LLADDR, bytes.fromhex(neighbour.mac.replace(":", "")))
    return _HEAD.pack(_HEAD.size + len(body), _RTM_NEWNEIGH, flags, 0, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
