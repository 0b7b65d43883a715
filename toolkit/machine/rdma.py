"""RDMA devices of the kernel, through rdmanetlink, which pyroute2 does not support."""

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported

_NETLINK_RDMA = 20
_NLDEV = 5 << 10
"""The client RDMA_NL_NLDEV of <rdma/rdma_netlink.h>, in the type of every message."""
_GET, _NEWLINK, _DELLINK, _PORT_GET, _SYS_GET = 1, 3, 4, 5, 6
_DEV_INDEX, _DEV_NAME, _PORT_STATE, _NDEV_NAME, _LINK_TYPE, _NETNS_MODE = 1, 2, 12, 51, 65, 66
_ERROR, _DONE = 2, 3
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ALIGNMENT = 4
_TYPE_MASK = 0x3FFF
_RECEIVE_BYTES = 1 << 16
_ACTIVE = 4
"""IB_PORT_ACTIVE."""
_MODULE = Path("/sys/module/rdma_rxe")
_REASONS = {
    errno.ENFILE: "a device of that name exists already",
    errno.EEXIST: "the interface has a device already",
    errno.ENODEV: "there is no such interface",
    errno.EINVAL: "it is not a soft-RoCE device",
    errno.EPERM: "only root may change devices",
}
"""Meanings of the kernel's errors for these requests."""


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """An RDMA device with one port, as the kernel lists it."""

    index: int
    name: str
    interface: str
    """Network interface that carries its packets; empty if there is none."""
    is_active: bool
    """True if the port is active, which requires that the interface is up."""


def devices() -> list[RdmaDevice]:
    """Return the RDMA devices in this thread's network namespace, by index.

    Raises:
        Unsupported: the kernel has no RDMA.
    """
    found = []
    with closing(_Connection()) as kernel:
        for answer in list(kernel.ask(_GET, _DUMP)):  # one dump at a time
            (index,) = struct.unpack("=I", answer[_DEV_INDEX])
            ports = list(kernel.ask(_PORT_GET, _DUMP, {_DEV_INDEX: answer[_DEV_INDEX]}))
            port = ports[0] if ports else {}
            state = port.get(_PORT_STATE, b"\0")[0]
            name, interface = _text(answer[_DEV_NAME]), _text(port.get(_NDEV_NAME, b""))
            found.append(RdmaDevice(index, name, interface, state == _ACTIVE))
    return sorted(found, key=lambda device: device.index)


def add_rxe(name: str, interface: str) -> None:
    """Make a soft-RoCE device on a network interface; the kernel loads the module if needed.

    Raises:
        LocalError: there is a device of that name or on that interface, there is no such interface, or this user
            may not make devices.
        Unsupported: the kernel has no soft-RoCE.
    """
    values = {_DEV_NAME: _string(name), _LINK_TYPE: _string("rxe"), _NDEV_NAME: _string(interface)}
    try:
        with closing(_Connection()) as kernel:
            list(kernel.ask(_NEWLINK, _ACK, values))
    except OSError as error:
        if error.errno == errno.EINVAL and not _MODULE.exists():
            raise Unsupported(
                "this kernel has no soft-RoCE: msgrlab vm run -- CMD runs a kernel with it"
            ) from None
        why = _REASONS.get(error.errno or 0, error.strerror)
        raise LocalError(f"RDMA device {name} on {interface}: {why}") from None


def remove_rxe(name: str) -> None:
    """Remove a soft-RoCE device; does nothing if there is none of that name.

    Raises:
        LocalError: it cannot be removed, such as a hardware device.
    """
    try:
        found = devices()
    except Unsupported:
        return
    for device in (each for each in found if each.name == name):
        try:
            with closing(_Connection()) as kernel:
                list(kernel.ask(_DELLINK, _ACK, {_DEV_INDEX: struct.pack("=I", device.index)}))
        except OSError as error:
            if error.errno != errno.ENODEV:  # its interface has gone meanwhile
                why = _REASONS.get(error.errno or 0, error.strerror)
                raise LocalError(f"RDMA device {name}: {why}") from None


def are_shared() -> bool:
    """True if every network namespace sees all RDMA devices; False if each device is in one namespace.

    Raises:
        Unsupported: the kernel has no RDMA.
    """
    with closing(_Connection()) as kernel:
        return any(answer.get(_NETNS_MODE, b"\1")[0] == 1 for answer in kernel.ask(_SYS_GET, 0))


class _Connection:
    """A socket to the kernel's RDMA subsystem.

    Raises:
        Unsupported: the kernel has none.
    """

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_RDMA)
        except OSError:
            raise Unsupported("this kernel has no RDMA: msgrlab vm run -- CMD runs a kernel with it") from None

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, command: int, flags: int, values: dict[int, bytes] | None = None) -> Iterator[dict[int, bytes]]:
        """Send a request; yields the attributes of each reply.

        Raises:
            OSError: the kernel rejected it.
        """
        body = b"".join(_attribute(kind, value) for kind, value in (values or {}).items())
        head = _HEADER.pack(_HEADER.size + len(body), _NLDEV | command, _REQUEST | flags, 0, 0)
        self._socket.sendto(head + body, (0, 0))
        is_over = False
        while not is_over:
            received = self._socket.recv(_RECEIVE_BYTES)
            for kind, payload in _messages(received):
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", payload)
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    is_over = True
                elif kind == _DONE:
                    is_over = True
                else:
                    yield _attributes(payload)
                    is_over = is_over or not flags


def _messages(received: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(received):
        length, kind, _, _, _ = _HEADER.unpack_from(received, at)
        yield kind, received[at + _HEADER.size : at + length]
        at += length + -length % _ALIGNMENT


def _attributes(payload: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + _ATTRIBUTE.size <= len(payload):
        length, kind = _ATTRIBUTE.unpack_from(payload, at)
        found[kind & _TYPE_MASK] = payload[at + _ATTRIBUTE.size : at + length]
        at += max(length, _ATTRIBUTE.size) + -length % _ALIGNMENT
    return found


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % _ALIGNMENT)


def _string(text: str) -> bytes:
    return text.encode() + b"\0"


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")
