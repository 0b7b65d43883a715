"""The TCP ports that a capture records, besides RoCE, and the kernel filter for them."""

from collections.abc import Iterator, Sequence
from struct import Struct

from messenger.errors import LocalError, check_kind

CEPH_PORTS = "3300,6789,6800-7568"
"""Ports of monitors (v2 and v1), and the range of the other daemons (``ms_bind_port_min`` and ``_max``)."""
ALL = "all"
_SSH_PORT = 22
"""Excluded from captures over ssh, which would record themselves."""
_MOST_RANGES = 200
"""Limit of ranges; their tests fit a kernel filter (4096 instructions) many times over."""

# <linux/filter.h>, <linux/bpf_common.h>: one instruction, and those used here
_INSTRUCTION = Struct("=HBBI")
_LD_H, _LD_B, _LD_H_X, _LDX_MSH = 0x28, 0x30, 0x48, 0xB1
_AND, _LSH, _TAX, _LDX_IMM = 0x54, 0x64, 0x07, 0x01
_JA, _JEQ, _JGT, _JGE, _JSET = 0x05, 0x15, 0x25, 0x35, 0x45
_RET = 0x06
_ACCEPT, _REJECT = (_RET, 0, 0, 0xFFFFFFFF), (_RET, 0, 0, 0)
_METADATA = 0x1_0000_0000 - 0x1000
"""SKF_AD_OFF: the kernel's metadata of a packet."""
_PROTOCOL, _PACKET_TYPE, _HARDWARE_TYPE = _METADATA, _METADATA + 4, _METADATA + 28
_NETWORK = 0x1_0000_0000 - 0x100000
"""SKF_NET_OFF: offsets count from the IP header, whatever precedes it."""

_OUTGOING = 4
_LOOPBACK = 772
_IPV4, _IPV6, _VLANS = 0x0800, 0x86DD, (0x8100, 0x88A8)
_TCP, _UDP = 6, 17
ROCE_PORT = 4791
"""UDP port of RoCEv2. Packets to it are always recorded, since they do not contain the ports of a link over
RDMA."""


def parse_ports(text: str) -> tuple[range, ...]:
    """Parse ports such as ``3300,6800-7568``; empty for ``all``, which means any port.

    Raises:
        LocalError: the text is malformed.
    """
    check_kind("ports", text, str, f"text such as '3300' or '{CEPH_PORTS}'")
    if text.strip() == ALL:
        return ()
    ranges = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        try:
            found = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            found = range(0)
        if not found or found.start < 1 or found.stop > 1 << 16:
            raise LocalError(f"ports {text!r}: {word.strip()!r} is no port or range; like {CEPH_PORTS}, or {ALL}")
        ranges.append(found)
    if len(ranges) > _MOST_RANGES:
        raise LocalError(f"ports: {len(ranges)} ranges are more than {_MOST_RANGES}")
    return tuple(ranges)


def tcpdump_filter(ports: Sequence[range]) -> str:
    """Return tcpdump's expression for RoCE and TCP of these ports; for all but ssh's if there are none."""
    roce = f" or udp dst port {ROCE_PORT}"
    if not ports:
        return f"tcp and not port {_SSH_PORT}{roce}"
    words = [
        f"portrange {each.start}-{each.stop - 1}" if len(each) > 1 else f"port {each.start}" for each in ports
    ]
    return f"tcp and ({' or '.join(words)}){roce}"


def tcp_filter(ports: Sequence[range], *, loopback: bool = True) -> bytes:
    """Return a classic BPF program for a packet socket: TCP of these ports, and RoCE, on any kind of link.

    The loopback interface shows each packet when it leaves and when it arrives; the former is rejected. Later
    fragments of TCP packets, and frames with a VLAN tag that the kernel has not removed, are accepted, because
    they do not show the ports.

    Args:
        ports: ports to accept; all if empty.
        loopback: False to reject all packets of the loopback interface.
    """
    ports_match = tuple(_ports_match(ports)) if ports else (_ACCEPT,)
    # Jumps count the instructions that they skip. IPv4 and IPv6 put the length of their header into X.
    ipv4 = (
        (_LD_B, 0, 0, _NETWORK + 9),
        (_JEQ, 7, 0, _TCP),
        (_JEQ, 1, 0, _UDP),
        _REJECT,
        (_LDX_MSH, 0, 0, _NETWORK),
        (_LD_H_X, 0, 0, _NETWORK + 2),
        (_JEQ, 0, 1, ROCE_PORT),
        _ACCEPT,
        _REJECT,
        (_LD_H, 0, 0, _NETWORK + 6),
        (_JSET, 0, 1, 0x1FFF),  # the offset of a fragment
        _ACCEPT,
        (_LD_B, 0, 0, _NETWORK),
        (_AND, 0, 0, 0x0F),
        (_LSH, 0, 0, 2),
        (_TAX, 0, 0, 0),
    )
    ipv6 = (
        (_LD_B, 0, 0, _NETWORK + 6),
        (_JEQ, 6, 0, _TCP),
        (_JEQ, 1, 0, _UDP),
        _REJECT,
        (_LD_H, 0, 0, _NETWORK + 42),
        (_JEQ, 0, 1, ROCE_PORT),
        _ACCEPT,
        _REJECT,
        (_LDX_IMM, 0, 0, 40),
    )
    start = (
        (_LD_H, 0, 0, _HARDWARE_TYPE),
        (_JEQ, 0, 3, _LOOPBACK),
        (_LD_B, 0, 0, _PACKET_TYPE),
        (_JEQ, 0, 1, _OUTGOING) if loopback else (_JA, 0, 0, 0),
        _REJECT,
        (_LD_H, 0, 0, _PROTOCOL),
        (_JEQ, 1, 0, _VLANS[0]),
        (_JEQ, 0, 1, _VLANS[1]),
        _ACCEPT,
        (_JEQ, 2, 0, _IPV6),
        (_JEQ, 2 + len(ipv6), 0, _IPV4),
        _REJECT,
    )
    program = (*start, *ipv6, (_JA, 0, 0, len(ipv4)), *ipv4, *ports_match)
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def _ports_match(ports: Sequence[range]) -> Iterator[tuple[int, int, int, int]]:
    """Accept if the source or the destination port is in a range; reject otherwise."""
    for offset in (0, 2):
        yield _LD_H_X, 0, 0, _NETWORK + offset
        for wanted in ports:
            yield _JGE, 0, 2, wanted.start
            yield _JGT, 1, 0, wanted.stop - 1
            yield _ACCEPT
    yield _REJECT
