# cython: annotation_typing=False
"""The message: what an application sends and receives (docs/protocol.md §3.7, §4.8, §6.1)."""

from typing import ClassVar, Protocol, Self

from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.errors import LocalError
from messenger.messages.types import MessageType, message_name

PRIORITY_LOW = 64
PRIORITY_DEFAULT = 127
PRIORITY_HIGH = 196
PRIORITY_HIGHEST = 255


Encoded = tuple[int, int, Buffer]
"""A payload on the wire: the features it was encoded for, its version, the front segment."""


class Payload(Protocol):
    """Contents of a front segment: one class for each message type, listed in ``messenger.messages.registry``.

    One that is laid out differently for older peers also has ``version_for(features)``, the version to write.
    """

    TYPE: ClassVar[MessageType]
    VERSION: ClassVar[int]
    """Version of the layout that :meth:`encode` writes, and the newest that :meth:`decode` knows fully."""
    COMPAT_VERSION: ClassVar[int]
    """Oldest decoder that understands what :meth:`encode` writes."""

    def encode(self, encoder: Encoder, features: int, /) -> None:
        """Append the front segment for a peer with which ``features`` were negotiated."""

    @classmethod
    def decode(cls, decoder: Decoder, version: int, features: int, /) -> Self:
        """Read a front segment that was encoded as ``version``; what follows the known fields is ignored.

        Raises:
            DecodeError: cut short or malformed.
        """


class Message:
    """One message. Compared by identity; made by :meth:`of`, by the receiving side, or field by field."""

    __slots__ = (
        "compat_version",
        "data",
        "data_off",
        "encoded",
        "flags",
        "front",
        "held_bytes",
        "middle",
        "payload",
        "priority",
        "seq",
        "tid",
        "type",
        "version",
    )

    def __init__(
        self,
        type: int,  # noqa: A002 - as the protocol calls it
        front: Buffer = b"",
        middle: Buffer = b"",
        data: Buffer = b"",
        tid: int = 0,
        priority: int = PRIORITY_DEFAULT,
        version: int = 1,
        compat_version: int = 1,
        seq: int = 0,
        flags: int = 0,
        data_off: int = 0,
        payload: Payload | None = None,
        held_bytes: int | None = None,
        encoded: "Encoded | None" = None,
    ) -> None:
        self.type = type
        self.front = front
        self.middle = middle
        self.data = data
        self.tid = tid
        """Matches a reply to its request; chosen by the requester."""
        self.priority = priority
        self.version = version
        self.compat_version = compat_version
        self.seq = seq
        """Of a received message; 0 on messages to be sent."""
        self.flags = flags
        """Of a received message: the footer flags."""
        self.data_off = data_off
        """Where the sender's data began within a page; a hint."""
        self.payload = payload
        """The decoded ``front``, if the type is known."""
        self.held_bytes = held_bytes
        """Of a received message: what it holds of the throttles until it is done with; None = nothing."""
        self.encoded = encoded
        """The payload as it was last encoded, in one value: several threads may send one message."""

    def __repr__(self) -> str:
        sizes = "+".join(str(_length(part)) for part in (self.front, self.middle, self.data))
        return f"<Message {message_name(self.type)} v{self.version} seq {self.seq} tid {self.tid} {sizes} bytes>"

    @classmethod
    def of(cls, payload: Payload, *, data: Buffer = b"", tid: int = 0, priority: int = PRIORITY_DEFAULT) -> Self:
        """A message to send; its front is encoded when it goes on the wire."""
        return cls(
            payload.TYPE,
            data=data,
            tid=tid,
            priority=priority,
            version=payload.VERSION,
            compat_version=payload.COMPAT_VERSION,
            payload=payload,
        )

    @property
    def size_bytes(self) -> int:
        """Length of the three parts together; one that was released, or is no buffer now, counts nothing."""
        try:
            return len(self.front) + len(self.middle) + len(self.data)
        except (TypeError, ValueError):
            return sum(map(_length, (self.front, self.middle, self.data)))

    def encode_front(self, features: int) -> None:
        """Renew ``front`` and ``version`` from the payload, if there is one, for a peer with these features."""
        if self.payload is not None:
            _, self.version, self.front = self.encoded = self._encode(self.payload, features)

    def front_for(self, features: int) -> tuple[int, Buffer]:
        """Version and front for a peer with these features, which may be others after a reconnect (§3.6).

        The message stays as it is, since other connections may send it too.
        """
        if self.payload is None:
            return self.version, self.front
        encoded = self.encoded
        if encoded is None or encoded[0] != features:
            encoded = self.encoded = self._encode(self.payload, features)
        return encoded[1], encoded[2]

    def _encode(self, payload: Payload, features: int) -> Encoded:
        version_for = getattr(payload, "version_for", None)
        version = self.version if version_for is None else version_for(features)
        encoder = Encoder()
        payload.encode(encoder, features)
        return features, version, encoder.getvalue()

    def needs_check(self, most_bytes: int) -> bool:
        """False if the message can be written as it is, which nearly every message can; see :meth:`check`."""
        data, front = self.data, self.front
        try:
            return bool(
                data.__class__ is not bytes  # half the price of type()
                or front.__class__ is not bytes
                or self.middle != b""
                or self.tid >> 64
                or (self.type | self.priority | self.version | self.compat_version | self.data_off) >> 16
                or len(data) + len(front) > most_bytes
            )
        except TypeError:  # of numbers that are none
            return True

    def check(self, most_bytes: int) -> None:
        """Refuse a message that cannot be written.

        Raises:
            LocalError: a part is no buffer of bytes, a number does not fit into a frame (§4.4, §4.8), or all parts
                together are longer than ``most_bytes``.
        """
        for name in "front", "middle", "data":
            part = getattr(self, name)
            if type(part) is not bytes:
                _check_part(name, part)
        for name, bits in _NUMBERS.items():
            number = getattr(self, name)
            if not isinstance(number, int) or number >> bits:
                raise LocalError(f"Message.{name} = {number!r}: give a number of {bits} bits")
        if self.size_bytes > most_bytes:
            raise LocalError(f"{self!r} is longer than max_frame_bytes = {most_bytes}")


_NUMBERS = {"tid": 64, "type": 16, "priority": 16, "version": 16, "compat_version": 16, "data_off": 16}
"""Widths, in bits, of the numbers in a message's header."""


def _length(part: Buffer) -> int:
    try:
        return len(part)
    except (TypeError, ValueError):  # the application released or replaced it while the message was on its way
        return 0


def _check_part(name: str, part: object) -> None:
    wanted = f"Message.{name}: give bytes, a bytearray or a contiguous memoryview of bytes, not"
    if isinstance(part, memoryview):
        if not part.c_contiguous:
            raise LocalError(f"{wanted} a memoryview with gaps")
        if part.itemsize != 1 or part.ndim != 1:
            raise LocalError(f"{wanted} a memoryview of format {part.format!r} and {part.ndim} dimensions")
    elif not isinstance(part, bytes | bytearray):
        raise LocalError(f"{wanted} {type(part).__name__}")
