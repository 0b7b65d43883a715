"""The scapy layers: any bytes are taken apart and put together again, byte by byte, shown and summarised.

The first byte of an input is which layer it is for.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from messenger.cephx.exchange import ConMode
from messenger.v2.wire import encode_banner
from tests.fuzz.seeds import conversation
from tests.fuzz.target import KIB, Target, require_same
from tests.support.frames import ALL_MODES, HEADER, message, writer

if TYPE_CHECKING:
    from scapy.packet import Packet


@cache
def _layers() -> "list[type[Packet]]":
    """Return all layers; scapy is imported for the first input."""
    from scapy.packet import Packet

    from toolkit.dissect import layers

    found = [getattr(layers, name) for name in sorted(layers.__all__)]
    return [layer for layer in found if isinstance(layer, type) and issubclass(layer, Packet)]


def run(data: bytes) -> None:
    """Take the bytes apart as one layer, and as whatever they look like."""
    from scapy.config import conf
    from scapy.layers.inet import TCP

    if len(data) < 2:
        return
    layer = _layers()[data[0] % len(_layers())]
    raw = data[1:]
    conf.debug_dissector = True  # otherwise scapy would hide what is raised
    try:
        packet, segment = layer(raw), TCP(bytes(TCP(dport=3300, chksum=0)) + raw)
    finally:
        conf.debug_dissector = False
    require_same("taken apart and built again", bytes(packet), raw)
    require_same("the same as payload of TCP", bytes(segment.payload), raw)
    for seen in (packet, segment):
        seen.show(dump=True)
        seen.summary()


def seeds() -> Iterator[bytes]:
    """Yield the bytes of a conversation of each protocol, and frames of every form, each as several layers."""
    samples = [encode_banner(3, 0), b"ceph v027" + bytes(272)]
    samples += [message(writer(mode), HEADER, b"front", b"", b"data") for mode in ALL_MODES]
    samples += [raw[:600] for _, raw in conversation("none", ConMode.CRC)[:12]]
    for number in range(0, 256, 6):
        yield bytes([number]) + samples[number % len(samples)]


TARGETS = (
    Target(name="scapy-layers", run=run, seeds=seeds, coarse=True, mutations=100, allowance_bytes=4096 * KIB),
)
