"""Frames that the project's decoder found in a capture, as scapy packets."""

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from scapy.utils import EDecimal

from messenger.v1.wire import ADDR_SIZE, Piece
from messenger.v2.wire import Tag
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.layers.fields import VirtualField
from toolkit.dissect.layers.frame import MSGR2, Frame, MSGR2_Banner, MSGR2_Compressed, MSGR2_Rev0
from toolkit.dissect.layers.layer import Layer
from toolkit.dissect.layers.sealed import MSGR2_Secure, frame_of
from toolkit.dissect.layers.v1 import (
    MSGR1,
    MSGR1_Banner,
    MSGR1_ClientIdentify,
    MSGR1_Connect,
    MSGR1_ConnectReply,
    MSGR1_Seq,
    MSGR1_ServerIdentify,
)

_NANO = 1_000_000_000
_LONGEST_SEGMENT_BYTES = 0xFFFF - 60
_U32_MASK = (1 << 32) - 1


class MSGR_Link(Layer):
    """The decoder's data on a frame. Building it emits no bytes."""

    __slots__: list[str] = []
    name = "MSGR link"
    show_summary = False
    fields_desc = [
        VirtualField("frame"),
        VirtualField("stream"),
        VirtualField("sender"),
        VirtualField("protocol"),
        VirtualField("mode"),
        VirtualField("offset"),
        VirtualField("crc"),
        VirtualField("auth"),
        VirtualField("error"),
    ]


class MSGR_Gap(Layer):
    """A gap in the capture. Building it emits no bytes."""

    __slots__: list[str] = []
    name = "MSGR gap"
    fields_desc = [VirtualField("length")]

    def line(self) -> str:
        """Return the number of missing bytes."""
        return f"MSGR GAP {self.getfieldval('length')} bytes missing"


class MSGR_Unknown(Layer):
    """Bytes that are no frame, or sealed bytes whose frame borders are unknown."""

    __slots__: list[str] = []
    name = "MSGR unknown"
    fields_desc = [*Raw.fields_desc]

    def line(self) -> str:
        """Return the number of bytes."""
        return f"MSGR UNKNOWN {len(self.getfieldval('load'))} bytes"


def packet_of(frame: DecodedFrame) -> Packet:
    """Convert a decoded frame to a scapy packet: addresses, ports and time, the decoder's data, and the frame.

    IP and TCP headers are made up: ``TCP.seq`` is the frame's offset in its direction. A frame longer than 64 KiB
    has an IP header without a length, like a large send that the network card splits.
    """
    packet = _addresses(frame)
    for layer in (_link_layer(frame), layers_of(frame)):
        packet.add_payload(layer)  # the operator / would copy both sides
    packet.time = EDecimal(frame.time_ns) / EDecimal(_NANO)
    if frame.error:
        packet.comments = [frame.error.encode()]
    return packet


def layers_of(frame: DecodedFrame) -> Packet:
    """Return the layers of a decoded frame, without those below them."""
    wire = bytes(frame.wire)
    if frame.tag == "GAP":
        return MSGR_Gap(length=frame.length)
    if not wire or frame.tag == "UNKNOWN":
        return MSGR_Unknown(load=wire)
    return _v1_layers(frame, wire) if frame.protocol == "v1" else _v2_layers(frame, wire)


def _addresses(frame: DecodedFrame) -> Packet:
    source, source_port = _address(frame.src)
    target, target_port = _address(frame.dst)
    ip = (IPv6 if ":" in source else IP)(src=source, dst=target)
    tcp = TCP(sport=source_port, dport=target_port, flags="PA", seq=frame.offset & _U32_MASK)
    if frame.length > _LONGEST_SEGMENT_BYTES:  # as segments for a network card to split: no length, no checksum
        ip.fields["plen" if isinstance(ip, IPv6) else "len"] = 0
        tcp.fields["chksum"] = 0
    ip.add_payload(tcp)
    return ip


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _link_layer(frame: DecodedFrame) -> MSGR_Link:
    return MSGR_Link(
        frame=frame.frame,
        stream=frame.stream.index,
        sender="client" if frame.direction is Direction.TO_SERVER else "server",
        protocol=frame.protocol,
        mode=frame.mode,
        offset=frame.offset,
        crc=frame.crc.value,
        auth=frame.auth.value,
        error=frame.error,
    )


def _v1_layers(frame: DecodedFrame, wire: bytes) -> Packet:
    if frame.tag == Piece.IDENTIFY:
        return MSGR1_ServerIdentify(wire) if len(wire) >= 2 * ADDR_SIZE else MSGR1_ClientIdentify(wire)
    return _V1_OPENING.get(frame.tag, MSGR1)(wire)


_V1_OPENING: dict[str, type[Layer]] = {
    Piece.BANNER: MSGR1_Banner,
    Piece.CONNECT: MSGR1_Connect,
    Piece.CONNECT_REPLY: MSGR1_ConnectReply,
    Piece.SEQ: MSGR1_Seq,
}


def _v2_layers(frame: DecodedFrame, wire: bytes) -> Packet:
    if frame.tag == "BANNER":
        return MSGR2_Banner(wire)
    if frame.mode == "secure":
        return MSGR2_Secure(ciphertext=wire, opened=_opened(frame))
    layers = (MSGR2_Rev0 if frame.protocol == "v2.0" else MSGR2)(wire)
    if MSGR2_Compressed in layers:
        layers[MSGR2_Compressed].fields["opened"] = _opened(frame)  # not a change of what is on the wire
    return layers


def _opened(frame: DecodedFrame) -> Frame | None:
    """Return the content of a sealed or compressed frame; None if it could not be opened."""
    if not frame.segments or frame.tag not in Tag.__members__:
        return None
    s0, s1, s2, s3 = [*frame.segments, b"", b"", b""][:4]
    return frame_of(Tag[frame.tag], (s0, s1, s2, s3), revision=0 if frame.protocol == "v2.0" else 1)
