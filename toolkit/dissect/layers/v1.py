"""The parts of a v1 stream as layers (docs/protocol.md §3.1, §3.2, §3.7).

The handshake has no frames: banner, addresses, CONNECT, its reply and SEQ are layers of their own. The stream
after it consists of :class:`MSGR1`, a tag, with the content of the tag as its payload.
"""

from scapy.config import conf
from scapy.fields import RawVal
from scapy.packet import Packet, bind_layers

from messenger.cephx.exchange import AuthMethod
from messenger.compat import override
from messenger.crc import crc32c
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import NEW_ENTITY_NUM, EntityType
from messenger.denc.layout import Kind
from messenger.messages.message import PRIORITY_DEFAULT
from messenger.messages.types import MessageType
from messenger.v1.framing import COMPLETE, NOCRC, SIGNED
from messenger.v1.wire import ADDR_SIZE, FLAG_LOSSY, REPLY_TAGS, Tag
from messenger.v2.wire import V1_BANNER
from toolkit.dissect.layers.fields import (
    I64_KIND,
    U8_KIND,
    U16_KIND,
    U32_KIND,
    U64_KIND,
    AddrField,
    BytesField,
    CrcField,
    FlagsField,
    LengthField,
    Names,
    NumberField,
    names_of,
)
from toolkit.dissect.layers.layer import Layer
from toolkit.dissect.layers.message import MESSAGE_NAMES, TypedField, is_reply, message_line

_ENTITIES: Names = {int(kind): kind.label for kind in EntityType}
_METHODS = names_of(AuthMethod)
_LOSSY: Names = {FLAG_LOSSY: "LOSSY"}
_OLD_FLAGS_SIZE = 1


def _decode_form_a(decoder: Decoder) -> EntityAddr:
    """Decode form A whatever the first bytes are: v1 uses no other form here (§1.3)."""
    image = decoder.raw(ADDR_SIZE)
    return EntityAddr.decode(Decoder(bytes(4) + image[4:]))


def _encode_form_a(encoder: Encoder, addr: EntityAddr) -> None:
    encoder.raw(addr.legacy_image())


_FORM_A = Kind(_encode_form_a, _decode_form_a, str)


class _Piece(Layer):
    """Base of the parts of fixed length: bytes after one belong to the next."""

    __slots__: list[str] = []
    PIECE = ""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Leave the bytes after it to the next part."""
        return b"", s

    def line(self) -> str:
        """Return the part and its fields in one line."""
        names = [field.name for field in self.fields_desc if not isinstance(field, LengthField)]
        return f"MSGR1 {self.PIECE} {self.shown(*names)}".rstrip()


class MSGR1_Banner(_Piece):
    """The banner, the first bytes of either side."""

    __slots__: list[str] = []
    PIECE = "BANNER"
    name = "MSGR1 banner"
    fields_desc = [BytesField("magic", lambda _pkt, _rest: len(V1_BANNER), V1_BANNER)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Keep the bytes after the banner if they hold addresses.

        The acceptor sends its addresses with the banner, the connector its own once it has received those.
        """
        return (s, None) if len(s) >= ADDR_SIZE else (b"", s)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer for one address or for two."""
        return MSGR1_ServerIdentify if len(payload) >= 2 * ADDR_SIZE else MSGR1_ClientIdentify

    def line(self) -> str:
        """Return the name: nothing in it varies."""
        return "MSGR1 BANNER"


class MSGR1_ServerIdentify(_Piece):
    """The acceptor's own address, and the connector's address as the acceptor sees it."""

    __slots__: list[str] = []
    PIECE = "IDENTIFY"
    name = "MSGR1 server identify"
    fields_desc = [
        AddrField("server_addr", _FORM_A, EntityAddr()),
        AddrField("client_addr", _FORM_A, EntityAddr()),
    ]


class MSGR1_ClientIdentify(_Piece):
    """The connector's own address; CONNECT follows."""

    __slots__: list[str] = []
    PIECE = "IDENTIFY"
    name = "MSGR1 client identify"
    fields_desc = [AddrField("client_addr", _FORM_A, EntityAddr())]


def _authorizer_bytes(pkt: Packet, _rest: bytes) -> int:
    """Length of the authorizer that follows."""
    return int(pkt.given("authorizer_len") or 0)


class _WithAuthorizer(_Piece):
    __slots__: list[str] = []

    def computed(self, name: str, built: bytes) -> int:
        """Return the length of the authorizer."""
        return len(self.getfieldval("authorizer"))


class MSGR1_Connect(_WithAuthorizer):
    """The connector's request for a session."""

    __slots__: list[str] = []
    PIECE = "CONNECT"
    name = "MSGR1 CONNECT"
    fields_desc = [
        NumberField("features", U64_KIND, 0, hexadecimal=True),
        NumberField("host_type", U32_KIND, int(EntityType.CLIENT), _ENTITIES),
        NumberField("global_seq", U32_KIND),
        NumberField("connect_seq", U32_KIND),
        NumberField("protocol_version", U32_KIND),
        NumberField("authorizer_protocol", U32_KIND, 0, _METHODS),
        LengthField("authorizer_len"),
        FlagsField("flags", U8_KIND, 0, _LOSSY),
        BytesField("authorizer", _authorizer_bytes),
    ]


class MSGR1_ConnectReply(_WithAuthorizer):
    """The acceptor's reply to CONNECT."""

    __slots__: list[str] = []
    PIECE = "CONNECT_REPLY"
    name = "MSGR1 CONNECT_REPLY"
    fields_desc = [
        NumberField("tag", U8_KIND, int(Tag.READY), names_of(sorted(REPLY_TAGS))),
        NumberField("features", U64_KIND, 0, hexadecimal=True),
        NumberField("global_seq", U32_KIND),
        NumberField("connect_seq", U32_KIND),
        NumberField("protocol_version", U32_KIND),
        LengthField("authorizer_len"),
        FlagsField("flags", U8_KIND, 0, _LOSSY),
        BytesField("authorizer", _authorizer_bytes),
    ]

    def answers(self, other: Packet) -> int:
        """Return 1 if ``other`` is a CONNECT."""
        return int(isinstance(other, MSGR1_Connect))


class MSGR1_Seq(_Piece):
    """The sender's in_seq, exchanged before a session is resumed."""

    __slots__: list[str] = []
    PIECE = "SEQ"
    name = "MSGR1 SEQ"
    fields_desc = [NumberField("seq", U64_KIND)]


# ---- the stream


class MSGR1(Layer):
    """The tag before every part of the stream of an open link."""

    __slots__: list[str] = []
    name = "MSGR1"
    show_summary = False
    fields_desc = [NumberField("tag", U8_KIND, int(Tag.MSG), names_of(Tag))]

    def do_dissect_payload(self, s: bytes) -> None:
        """Dissect the payload; for tags without one, the bytes after it belong to the next part."""
        layer = _WITHOUT_BYTES.get(self.getfieldval("tag"))
        if layer is None:
            super().do_dissect_payload(s)
            return
        self.add_payload(layer())
        if s:
            self.add_payload(conf.padding_layer(s))

    def recompute(self) -> "MSGR1":
        """Clear lengths and crcs of the message after the tag, so that they are recomputed; returns the layer."""
        if isinstance(self.payload, MSGR1_Message):
            self.payload.recompute()
        return self

    def answers(self, other: Packet) -> int:
        """Return 1 if the payload answers that of the other layer."""
        return int(self.payload.answers(other.payload)) if isinstance(other, MSGR1) else 0

    def line(self) -> str:
        """Return the tag, for a payload without a line of its own."""
        return f"MSGR1 {self.shown('tag')}"


class _Signature(NumberField):
    """The signature of a message; None if the footer has none, since MSG_AUTH was not negotiated."""

    __slots__: list[str] = []

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, object]:
        """Read nothing if only the flags are left."""
        return (s, None) if len(s) == _OLD_FLAGS_SIZE else super().getfield(pkt, s)

    def addfield(self, pkt: Packet, s: bytes, val: object) -> bytes:
        """Append nothing for None."""
        return s if val is None else super().addfield(pkt, s, val)

    def shown(self, pkt: Packet | None, x: int | None) -> str:
        """Return the number."""
        return "none in the footer" if x is None else super().shown(pkt, x)


def _part(name: str) -> BytesField:
    return BytesField(name, lambda pkt, _rest: int(pkt.given(f"{name}_len") or 0))


class MSGR1_Message(_Piece):
    """A message: header, front, middle, data, footer.

    Lengths and crcs that are None are computed. ``sig`` is None in a footer without signature (no MSG_AUTH).
    ``typed`` is the payload in ``front``, if its type is known.
    """

    __slots__: list[str] = []
    PIECE = "MSG"
    name = "MSGR1 MSG"
    fields_desc = [
        NumberField("seq", U64_KIND),
        NumberField("tid", U64_KIND),
        NumberField("type", U16_KIND, int(MessageType.PING), MESSAGE_NAMES),
        NumberField("priority", U16_KIND, PRIORITY_DEFAULT),
        NumberField("version", U16_KIND, 1),
        LengthField("front_len"),
        LengthField("middle_len"),
        LengthField("data_len"),
        NumberField("data_off", U16_KIND),
        NumberField("src_type", U8_KIND, int(EntityType.CLIENT), _ENTITIES),
        NumberField("src_num", I64_KIND, NEW_ENTITY_NUM),
        NumberField("compat_version", U16_KIND, 1),
        NumberField("reserved", U16_KIND),
        CrcField("header_crc"),
        _part("front"),
        _part("middle"),
        _part("data"),
        CrcField("front_crc"),
        CrcField("middle_crc"),
        CrcField("data_crc"),
        _Signature("sig", U64_KIND, 0, hexadecimal=True),
        FlagsField("footer_flags", U8_KIND, COMPLETE, {COMPLETE: "COMPLETE", NOCRC: "NOCRC", SIGNED: "SIGNED"}),
        TypedField(),
    ]
    _COMPUTED = tuple(field.name for field in fields_desc if isinstance(field, LengthField))

    @override
    def computed(self, name: str, built: bytes) -> int:
        """Return the length, or the crc: 0 for an absent part, and for data if the footer has NOCRC."""
        if name == "header_crc":
            return crc32c(built, 0)
        part, _, what = name.partition("_")
        content = bytes(self.getfieldval(part))
        if what == "len":
            return len(content)
        if part == "data" and (self.given("footer_flags") or 0) & NOCRC:
            return 0
        return crc32c(content, 0) if content else 0

    @override
    def right_crc(self, name: str) -> int:
        built = b""
        for field in self.fields_desc:
            if field.name == name:
                break
            value = self.getfieldval(field.name)
            built = built + bytes(value) if isinstance(value, RawVal) else field.addfield(self, built, value)
        return self.computed(name, built)

    @property
    def crc_ok(self) -> bool:
        """True if every crc is right and none is missing."""
        return not any(
            isinstance(value, RawVal) or (value is not None and value != self.right_crc(field.name))
            for field, value in ((field, self.getfieldval(field.name)) for field in self.fields_desc)
            if isinstance(field, CrcField)
        )

    def recompute(self) -> "MSGR1_Message":
        """Clear lengths and crcs, so that they are recomputed; returns the layer itself."""
        for name in self._COMPUTED:
            self.delfieldval(name)
        return self

    def answers(self, other: Packet) -> int:
        """Return 1 if the message answers ``other``: another type with the same tid."""
        return int(isinstance(other, MSGR1_Message) and is_reply(self, other))

    def line(self) -> str:
        """Return the main fields in one line."""
        return f"MSGR1 MSG {message_line(self)}"


class MSGR1_Ack(_Piece):
    """Acknowledges every message up to ``seq``."""

    __slots__: list[str] = []
    PIECE = "ACK"
    name = "MSGR1 ACK"
    fields_desc = [NumberField("seq", U64_KIND)]

    def answers(self, other: Packet) -> int:
        """Return 1 if ``other`` is a message up to this seq."""
        return int(isinstance(other, MSGR1_Message) and (self.given("seq") or 0) >= (other.given("seq") or 0))


class MSGR1_KeepAlive(_Piece):
    """A keepalive that requires no answer."""

    __slots__: list[str] = []
    PIECE = "KEEPALIVE"
    name = "MSGR1 KEEPALIVE"


class MSGR1_KeepAlive2(_Piece):
    """A keepalive with the sender's Unix time."""

    __slots__: list[str] = []
    PIECE = "KEEPALIVE2"
    name = "MSGR1 KEEPALIVE2"
    fields_desc = [NumberField("seconds", U32_KIND), NumberField("nanoseconds", U32_KIND)]


class MSGR1_KeepAlive2Ack(_Piece):
    """The answer to KEEPALIVE2, with the same time."""

    __slots__: list[str] = []
    PIECE = "KEEPALIVE2_ACK"
    name = "MSGR1 KEEPALIVE2_ACK"
    fields_desc = [NumberField("seconds", U32_KIND), NumberField("nanoseconds", U32_KIND)]

    def answers(self, other: Packet) -> int:
        """Return 1 if ``other`` is the KEEPALIVE2 with the same time."""
        if not isinstance(other, MSGR1_KeepAlive2):
            return 0
        return int(all(self.given(name) == other.given(name) for name in ("seconds", "nanoseconds")))


class MSGR1_Close(_Piece):
    """The sender ends the session."""

    __slots__: list[str] = []
    PIECE = "CLOSE"
    name = "MSGR1 CLOSE"


_WITHOUT_BYTES: dict[int, type[_Piece]] = {int(Tag.KEEPALIVE): MSGR1_KeepAlive, int(Tag.CLOSE): MSGR1_Close}

bind_layers(MSGR1, MSGR1_Message, tag=int(Tag.MSG))
bind_layers(MSGR1, MSGR1_Ack, tag=int(Tag.ACK))
bind_layers(MSGR1, MSGR1_KeepAlive, tag=int(Tag.KEEPALIVE))
bind_layers(MSGR1, MSGR1_KeepAlive2, tag=int(Tag.KEEPALIVE2))
bind_layers(MSGR1, MSGR1_KeepAlive2Ack, tag=int(Tag.KEEPALIVE2_ACK))
bind_layers(MSGR1, MSGR1_Close, tag=int(Tag.CLOSE))
