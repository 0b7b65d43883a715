"""Control frames of msgr v2 as layers, each built from the field table of its codec (docs/protocol.md §4.3)."""

import types
from typing import ClassVar, Self

from scapy.packet import Packet

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.denc.entity import EntityType
from messenger.denc.layout import Kind, layout_of
from messenger.v2.compressor import Algorithm
from messenger.v2.wire import (
    FLAG_LOSSY,
    SIGNATURE_SIZE,
    Ack,
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    ClientIdent,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Hello,
    IdentMissingFeatures,
    KeepAlive2,
    KeepAlive2Ack,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Signature,
    Tag,
    Wait,
    WireEntityType,
)
from toolkit.dissect.layers.fields import (
    BlobField,
    EntityTypeField,
    ErrnoField,
    FlagsField,
    KindField,
    Names,
    field_of,
    kind_of,
    names_of,
)
from toolkit.dissect.layers.layer import Layer
from toolkit.dissect.layers.message import MSGR2_Message

_MODES = names_of(ConMode)
_METHODS = names_of(AuthMethod)
_ALGORITHMS = names_of(Algorithm)
_NAMES: dict[str, Names] = {
    "AUTH_REQUEST method": _METHODS,
    "AUTH_BAD_METHOD method": _METHODS,
    "preferred_modes": _MODES,
    "allowed_modes": _MODES,
    "con_mode": _MODES,
    "allowed_methods": _METHODS,
    "COMPRESSION_REQUEST methods": _ALGORITHMS,
    "COMPRESSION_DONE method": _ALGORITHMS,
}
"""Names of numbers, by field; by frame and field where fields of one name differ."""
_HEXADECIMAL = ("features", "features_supported", "features_required", "client_cookie", "server_cookie")


def _field(frame: type[ControlFrame], name: str, kind: Kind) -> KindField:
    """The field for one row of a frame's table."""
    if kind == kind_of(Signature):
        return BlobField(name, kind, bytes(SIGNATURE_SIZE))
    if kind == kind_of(WireEntityType):
        return EntityTypeField(name, kind, EntityType.CLIENT)
    if name == "flags":
        return FlagsField(name, kind, 0, {FLAG_LOSSY: "LOSSY"})
    if name == "result":
        return ErrnoField(name, kind)
    names = _NAMES.get(f"{frame.TAG.name} {name}") or _NAMES.get(name)
    return field_of(name, kind, names, hexadecimal=name in _HEXADECIMAL)


_ANSWERS: dict[Tag, tuple[Tag, ...]] = {
    Tag.HELLO: (Tag.HELLO,),
    Tag.AUTH_REQUEST: (Tag.AUTH_DONE, Tag.AUTH_REPLY_MORE, Tag.AUTH_BAD_METHOD),
    Tag.AUTH_REQUEST_MORE: (Tag.AUTH_DONE, Tag.AUTH_REPLY_MORE, Tag.AUTH_BAD_METHOD),
    Tag.AUTH_SIGNATURE: (Tag.AUTH_SIGNATURE,),
    Tag.COMPRESSION_REQUEST: (Tag.COMPRESSION_DONE,),
    Tag.CLIENT_IDENT: (Tag.SERVER_IDENT, Tag.IDENT_MISSING_FEATURES, Tag.WAIT),
    Tag.SESSION_RECONNECT: (
        *(Tag.SESSION_RECONNECT_OK, Tag.SESSION_RETRY, Tag.SESSION_RETRY_GLOBAL),
        *(Tag.SESSION_RESET, Tag.WAIT),
    ),
    Tag.KEEPALIVE2: (Tag.KEEPALIVE2_ACK,),
}
"""By frame, the frames that answer it (docs/protocol.md §4.3)."""


class ControlLayer(Layer):
    """Base of the payloads of control frames; :class:`~toolkit.dissect.layers.frame.MSGR2` encloses them.

    Bytes after the fields, which peers ignore, become the payload of the layer.
    """

    __slots__: list[str] = []
    FRAME: ClassVar[type[ControlFrame]]
    """The messenger's class for the frame."""

    @classmethod
    def of(cls, frame: ControlFrame) -> Self:
        """Return the layer with the values of a messenger's frame."""
        return cls(**{name: getattr(frame, name) for name, _, _ in layout_of(cls.FRAME)})

    def frame(self) -> ControlFrame:
        """Return the layer as a messenger's frame. Raises DecodeError if it is malformed."""
        return self.FRAME.decode(self.self_build())

    def answers(self, other: Packet) -> int:
        """Return 1 if the frame answers ``other``: in a handshake, an ACK, or a KEEPALIVE2_ACK; else 0."""
        tag = self.FRAME.TAG
        if tag is Tag.ACK:
            seq = other.given("seq") if isinstance(other, MSGR2_Message) else None
            return int(seq is not None and (self.given("seq") or 0) >= seq)
        if not isinstance(other, ControlLayer) or tag not in _ANSWERS.get(other.FRAME.TAG, ()):
            return 0
        if tag is Tag.KEEPALIVE2_ACK:
            return int(all(self.given(name) == other.given(name) for name in ("seconds", "nanoseconds")))
        return 1

    def line(self) -> str:
        """Return tag and fields in one line."""
        return f"MSGR2 {self.FRAME.TAG.name} {self.shown(*(field.name for field in self.fields_desc))}".rstrip()


def _layer(frame: type[ControlFrame]) -> type[ControlLayer]:
    """Build the layer class of a control frame."""
    members = {
        "__slots__": [],
        "__module__": __name__,
        "__doc__": frame.__doc__,
        "FRAME": frame,
        "name": f"MSGR2 {frame.TAG.name}",
        "fields_desc": [_field(frame, name, kind) for name, kind, _ in layout_of(frame)],
    }
    layer: type[ControlLayer] = types.new_class(
        f"MSGR2_{frame.__name__}", (ControlLayer,), exec_body=lambda body: body.update(members)
    )
    return layer


MSGR2_Hello = _layer(Hello)
MSGR2_AuthRequest = _layer(AuthRequest)
MSGR2_AuthBadMethod = _layer(AuthBadMethod)
MSGR2_AuthReplyMore = _layer(AuthReplyMore)
MSGR2_AuthRequestMore = _layer(AuthRequestMore)
MSGR2_AuthDone = _layer(AuthDone)
MSGR2_AuthSignature = _layer(AuthSignature)
MSGR2_ClientIdent = _layer(ClientIdent)
MSGR2_ServerIdent = _layer(ServerIdent)
MSGR2_IdentMissingFeatures = _layer(IdentMissingFeatures)
MSGR2_SessionReconnect = _layer(SessionReconnect)
MSGR2_SessionReset = _layer(SessionReset)
MSGR2_SessionRetry = _layer(SessionRetry)
MSGR2_SessionRetryGlobal = _layer(SessionRetryGlobal)
MSGR2_SessionReconnectOk = _layer(SessionReconnectOk)
MSGR2_Wait = _layer(Wait)
MSGR2_KeepAlive2 = _layer(KeepAlive2)
MSGR2_KeepAlive2Ack = _layer(KeepAlive2Ack)
MSGR2_Ack = _layer(Ack)
MSGR2_CompressionRequest = _layer(CompressionRequest)
MSGR2_CompressionDone = _layer(CompressionDone)

CONTROL_LAYERS: dict[int, type[ControlLayer]] = {
    layer.FRAME.TAG: layer
    for layer in (
        MSGR2_Hello,
        MSGR2_AuthRequest,
        MSGR2_AuthBadMethod,
        MSGR2_AuthReplyMore,
        MSGR2_AuthRequestMore,
        MSGR2_AuthDone,
        MSGR2_AuthSignature,
        MSGR2_ClientIdent,
        MSGR2_ServerIdent,
        MSGR2_IdentMissingFeatures,
        MSGR2_SessionReconnect,
        MSGR2_SessionReset,
        MSGR2_SessionRetry,
        MSGR2_SessionRetryGlobal,
        MSGR2_SessionReconnectOk,
        MSGR2_Wait,
        MSGR2_KeepAlive2,
        MSGR2_KeepAlive2Ack,
        MSGR2_Ack,
        MSGR2_CompressionRequest,
        MSGR2_CompressionDone,
    )
}
"""The layer of each control frame, by tag."""
