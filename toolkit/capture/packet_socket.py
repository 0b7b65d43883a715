"""Captures packets by a packet socket with a ring of blocks that the kernel fills: no system call per packet.

The kernel stamps each packet with its time, and releases a block when it is full or 20 ms old.
"""

import contextlib
import ctypes
import mmap
import os
import socket
from collections.abc import Sequence
from fcntl import ioctl
from struct import Struct, pack, pack_into

from messenger.errors import LocalError
from toolkit.capture.formats import LinkType
from toolkit.capture.ports import tcp_filter
from toolkit.capture.sources import Packet
from toolkit.capture.target import ANY, Target, interfaces
from toolkit.errors import Unsupported

BLOCK_AGE_S = 0.020
"""Longest time for which the kernel holds packets in a block."""

_BLOCK_BYTES = 1 << 20
_DEFAULT_BUFFER_BYTES = 64 << 20
_FRAME_BYTES = 2048
"""The kernel requires one; blocks of variable packets do not use it."""

# <linux/if_packet.h>
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION = 263, 5, 6, 10
_TPACKET_V3 = 2
_STATUS_KERNEL, _STATUS_USER = 0, 1
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_BLOCK_STATUS_OFFSET = 8
_BLOCK = Struct("=8xIII")  # block_status, num_pkts, offset_to_first_pkt
_PACKET = Struct("=IIIIIIHH4xIH10x4xiHB")  # tpacket3_hdr, then sockaddr_ll from its ifindex on
_COUNTS = Struct("=III")
_U16, _U32 = Struct("=H"), Struct("=I")

_ETH_P_ALL = 0x0003
_ETH_P_8021Q = 0x8100
_MAC_BYTES = 12
_ARPHRD_ETHER, _ARPHRD_LOOPBACK = 1, 772
_SO_ATTACH_FILTER = 26
_SIOCGIFNAME, _SIOCGIFHWADDR = 0x8910, 0x8927
_IFREQ_BYTES, _IFNAME_BYTES = 40, 16


class PacketSocket:
    """Receives TCP packets of some ports from one interface, or from all. A context manager.

    Args:
        target: interface and namespace.
        ports: ports of which either end must have one; all ports if empty.
        buffer_bytes: size of the ring, which buffers packets while the reader is slow.

    Raises:
        Unsupported: the privilege is missing, or this system has no packet sockets.
        LocalError: there is no such interface or namespace.
    """

    def __init__(
        self, target: Target, ports: Sequence[range] = (), buffer_bytes: int = _DEFAULT_BUFFER_BYTES
    ) -> None:
        self._target = target
        self._blocks = max(2, buffer_bytes // _BLOCK_BYTES)
        self._next = 0
        self._index = 0
        """The kernel's number of the interface; 0 for all interfaces."""
        self._read = 0
        self._counted = self._dropped = 0
        self._socket = target.inside(lambda: self._opened(ports))
        try:
            self._ring = mmap.mmap(self._socket.fileno(), self._blocks * _BLOCK_BYTES)
        except OSError as error:
            self._socket.close()
            raise LocalError(f"{target.text}: no memory for packets: {error.strerror}") from None

    def __enter__(self) -> "PacketSocket":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor, readable if there are packets or the interface changed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop receiving."""
        self._ring.close()
        self._socket.close()

    @property
    def dropped(self) -> int:
        """Number of packets dropped because the ring was full."""
        self._count()
        return self._dropped

    @property
    def received(self) -> int:
        """Number of packets received so far, including those not read yet."""
        self._count()
        return self._counted - self._dropped

    @property
    def read(self) -> int:
        """Number of packets read from the ring."""
        return self._read

    def block(self) -> list[Packet]:
        """Return the packets of the next block that the kernel has released; empty if there is none."""
        start = self._next * _BLOCK_BYTES
        status, count, offset = _BLOCK.unpack_from(self._ring, start)
        if not status & _STATUS_USER:
            return []
        packets = []
        at = start + offset
        for _ in range(count):
            step, packet = self._packet(at)
            packets.append(packet)
            at += step
        _U32.pack_into(self._ring, start + _BLOCK_STATUS_OFFSET, _STATUS_KERNEL)
        self._next = (self._next + 1) % self._blocks
        self._read += count
        return packets

    def _packet(self, at: int) -> tuple[int, Packet]:
        ring = self._ring
        (step, seconds, nanoseconds, size, length, status, mac, net, tci, tpid, index, hardware, _type) = (
            _PACKET.unpack_from(ring, at)
        )
        time_ns = seconds * 1_000_000_000 + nanoseconds
        if hardware not in (_ARPHRD_ETHER, _ARPHRD_LOOPBACK):
            # Link headers of tunnels vary, but all carry IP.
            data = ring[at + net : at + mac + size]
            return step, Packet(time_ns, index, LinkType.RAW, data, length - (net - mac))
        data = ring[at + mac : at + mac + size]
        if status & _VLAN_VALID:  # the kernel or the card has removed the tag
            tag = pack("!HH", tpid if status & _VLAN_TPID_VALID else _ETH_P_8021Q, tci)
            data = data[:_MAC_BYTES] + tag + data[_MAC_BYTES:]
            length += len(tag)
        return step, Packet(time_ns, index, LinkType.ETHERNET, data, length)

    def interface_name(self, index: int) -> str:
        """Return the name of an interface in its namespace; its number if it is gone."""
        return self._find_name(index) or str(index)

    def only_interface(self) -> tuple[int, int] | None:
        """Return number and link type of the interface; None for all interfaces, or if it is gone."""
        name = self._find_name(self._index) if self._index else ""
        if not name:
            return None
        request = bytearray(name.encode().ljust(_IFREQ_BYTES, b"\0"))
        try:
            ioctl(self._socket, _SIOCGIFHWADDR, request)
        except OSError:
            return None
        (hardware,) = _U16.unpack_from(request, _IFNAME_BYTES)
        return self._index, LinkType.ETHERNET if hardware in (_ARPHRD_ETHER, _ARPHRD_LOOPBACK) else LinkType.RAW

    def obstacle(self) -> str:
        """Return why no more packets will come; empty if some may. An interface that is down may come back."""
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # "network is down", once; or poll() goes on
        is_removed = self._index and not self._find_name(self._index)
        return f"interface {self._target.interface} is gone" if is_removed else ""

    def _find_name(self, index: int) -> str:
        request = bytearray(_IFREQ_BYTES)
        pack_into("=i", request, _IFNAME_BYTES, index)
        try:
            ioctl(self._socket, _SIOCGIFNAME, request)
        except OSError:
            return ""
        return request[:_IFNAME_BYTES].rstrip(b"\0").decode(errors="replace")

    def _opened(self, ports: Sequence[range]) -> socket.socket:
        """Open the socket in the target's namespace, because it receives the packets of that namespace only."""
        if not hasattr(socket, "AF_PACKET"):
            raise Unsupported("capturing needs packet sockets, which only Linux has")
        with contextlib.ExitStack() as on_failure:
            try:
                opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # which receives nothing yet
            except PermissionError:
                raise Unsupported("capturing needs CAP_NET_RAW; run it as root: sudo msgrlab ...") from None
            except OSError as error:
                raise Unsupported(f"capturing needs packet sockets: {error.strerror}") from None
            on_failure.callback(opened.close)
            _attach_filter(opened, tcp_filter(ports, loopback=self._target.loopback))
            self._make_ring(opened)
            self._bind(opened)
            on_failure.pop_all()
        return opened

    def _make_ring(self, opened: socket.socket) -> None:
        opened.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        frames = self._blocks * _BLOCK_BYTES // _FRAME_BYTES
        request = pack("=7I", _BLOCK_BYTES, self._blocks, _FRAME_BYTES, frames, int(BLOCK_AGE_S * 1000), 0, 0)
        try:
            opened.setsockopt(_SOL_PACKET, _RX_RING, request)
        except OSError as error:
            raise LocalError(f"{self._target.text}: no memory for packets: {error.strerror}") from None

    def _bind(self, opened: socket.socket) -> None:
        """Bind the socket; packets come in from here on."""
        interface = self._target.interface
        try:
            self._index = 0 if interface == ANY else socket.if_nametoindex(interface)
        except OSError:
            place = "" if self._target.text == interface else f" at {self._target.text}"
            raise LocalError(f"no interface {interface!r}{place}; there are {interfaces()}") from None
        # socket.bind() accepts names only, and there is no name for all interfaces.
        address = pack("=HHiHBB8x", socket.AF_PACKET, socket.htons(_ETH_P_ALL), self._index, 0, 0, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.bind(opened.fileno(), address, len(address)):
            raise LocalError(f"{self._target.text}: {os.strerror(ctypes.get_errno())}")

    def _count(self) -> None:
        """Add up the kernel's counts, which restart at 0 after each read."""
        received, dropped, _ = _COUNTS.unpack(self._socket.getsockopt(_SOL_PACKET, _STATISTICS, _COUNTS.size))
        self._counted += received
        self._dropped += dropped


def _attach_filter(opened: socket.socket, program: bytes) -> None:
    memory = ctypes.create_string_buffer(program, len(program))
    header = pack("HP", len(program) // 8, ctypes.addressof(memory))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)
