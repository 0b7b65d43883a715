"""The message: what an application sends and receives (protocol.md §3.7, §4.8, §6.1)."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.messages.types import MessageType, message_name

PRIORITY_LOW = 64
PRIORITY_DEFAULT = 127
PRIORITY_HIGH = 196
PRIORITY_HIGHEST = 255


class Payload(Protocol):
    """What a front segment means: one class per message type, listed in ``messenger.messages.registry``.

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


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """One message. Compared by identity; made by :meth:`of`, by the receiving side, or field by field."""

    type: int
    front: Buffer = b""
    middle: Buffer = b""
    data: Buffer = b""
    tid: int = 0
    """Matches a reply to its request; chosen by whoever asks."""
    priority: int = PRIORITY_DEFAULT
    version: int = 1
    compat_version: int = 1
    seq: int = 0
    """Of a received message; 0 on messages to be sent."""
    flags: int = 0
    """Of a received message: the footer flags."""
    data_off: int = 0
    """Where the sender's data began within a page; a hint."""
    payload: Payload | None = None
    """What ``front`` means, if the type is known."""

    def __repr__(self) -> str:
        sizes = f"{len(self.front)}+{len(self.middle)}+{len(self.data)}"
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
        """Length of the three parts together: what throttles count."""
        return len(self.front) + len(self.middle) + len(self.data)

    def encode_front(self, features: int) -> None:
        """Renew ``front`` from the payload, if there is one.

        Called each time the message goes on the wire: after a reconnect the negotiated features may be others
        (§3.6).
        """
        if self.payload is not None:
            version_for = getattr(self.payload, "version_for", None)
            if version_for is not None:
                self.version = version_for(features)
            encoder = Encoder()
            self.payload.encode(encoder, features)
            self.front = encoder.getvalue()
