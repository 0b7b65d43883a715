"""Tap devices: Ethernet interfaces whose packets are read from and written to a file."""

import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.network.namespaces import within

_DEVICE = "/dev/net/tun"
# linux/if_tun.h, linux/sockios.h, linux/if.h
_TUNSETIFF = 0x400454CA
_TUNSETOFFLOAD = 0x400454D0
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR, _IFF_TUN_EXCL = 0x0002, 0x1000, 0x4000, 0x8000
_OFFLOADS = 0x01 | 0x02 | 0x04
"""TUN_F_CSUM, TUN_F_TSO4 and TUN_F_TSO6: checksums may be missing, and TCP segments come in bundles."""
_SIOCSIFFLAGS, _SIOCSIFMTU, _SIOCSIFTXQLEN, _SIOCGIFHWADDR = 0x8914, 0x8922, 0x8943, 0x8927
_IFF_UP = 0x1
_REQUEST = struct.Struct("16sH22x")
_NUMBER = struct.Struct("16si20x")
_ADDRESS = struct.Struct("16sH6s16x")
_QUEUE_PACKETS = 20_000
"""Most packets that wait for the wire; it is large, because only a link's state may lose packets."""


def open_tap(namespace: Path | None, interface: str, mtu: int, *, has_headers: bool = True) -> tuple[int, bytes]:
    """Make a tap device, up; its frames are those of :mod:`toolkit.network.wire.frames`.

    It vanishes when the file is closed, or with its namespace.

    Args:
        namespace: file of the namespace to make it in; None for the calling thread's.
        interface: name of the interface.
        mtu: MTU in bytes.
        has_headers: False for plain frames, of which the kernel makes none that is longer than the MTU.

    Returns:
        The open file, non-blocking, and the interface's Ethernet address.

    Raises:
        LocalError: no such namespace, or it has an interface of that name.
        Unsupported: tap devices are not available here.
    """
    name = interface.encode()
    with within(namespace):
        try:
            tap = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Unsupported(f"{_DEVICE}: {error.strerror}: no packets through user space here") from None
        try:
            kind = _IFF_TAP | _IFF_NO_PI | _IFF_TUN_EXCL | (_IFF_VNET_HDR if has_headers else 0)
            fcntl.ioctl(tap, _TUNSETIFF, _REQUEST.pack(name, kind))
            fcntl.ioctl(tap, _TUNSETOFFLOAD, _OFFLOADS if has_headers else 0)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
                fcntl.ioctl(control, _SIOCSIFMTU, _NUMBER.pack(name, mtu))
                fcntl.ioctl(control, _SIOCSIFTXQLEN, _NUMBER.pack(name, _QUEUE_PACKETS))
                fcntl.ioctl(control, _SIOCSIFFLAGS, _REQUEST.pack(name, _IFF_UP))
                found = fcntl.ioctl(control, _SIOCGIFHWADDR, _ADDRESS.pack(name, 0, b""))
        except OSError as error:
            os.close(tap)
            if error.errno == errno.EPERM:
                raise Unsupported("tap devices take CAP_NET_ADMIN, which root has (sudo msgrlab ...)") from None
            where = f" in {namespace}" if namespace else ""
            raise LocalError(f"tap {interface}{where}: {error.strerror}") from None
    return tap, _ADDRESS.unpack(found)[2]
