"""What clients ask monitors, and the answers (protocol.md §6.2)."""

from dataclasses import dataclass, field
from typing import ClassVar, Self
from uuid import UUID

from messenger.denc.codec import Decoder, Encoder
from messenger.messages.fields import decode_paxos, decode_uuid, encode_paxos, encode_uuid
from messenger.messages.types import MessageType

SUBSCRIBE_ONETIME = 1
"""Subscription flag: one answer is enough."""
_SHORTEST_SUBSCRIPTION = 13
_SUBSCRIBE_HOSTNAME_VERSION = 3
_GET_VERSION_OLDEST_VERSION = 2


@dataclass(slots=True)
class MMonGetMap:
    """Asks for the monitor map; the front is empty."""

    TYPE: ClassVar = MessageType.MON_GET_MAP
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    def encode(self, _encoder: Encoder, _features: int) -> None:
        """Append nothing."""

    @classmethod
    def decode(cls, _decoder: Decoder, _version: int, _features: int) -> Self:
        """Read nothing."""
        return cls()


@dataclass(slots=True)
class Subscription:
    """From which map epoch on; 0 asks for the latest in full."""

    start: int = 0
    flags: int = 0


@dataclass(slots=True)
class MMonSubscribe:
    """Asks to be sent maps, now and whenever they change."""

    TYPE: ClassVar = MessageType.MON_SUBSCRIBE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 1

    what: dict[str, Subscription] = field(default_factory=dict)
    """By map name: ``monmap``, ``osdmap``, ``mgrmap``, ``config`` and so on."""
    hostname: str = ""

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encoder.u32(len(self.what))
        for name, subscription in sorted(self.what.items()):
            encoder.string(name)
            encoder.u64(subscription.start)
            encoder.u8(subscription.flags)
        encoder.string(self.hostname)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, _features: int) -> Self:
        """Read the front."""
        what = decoder.mapping(
            decoder.string, lambda: Subscription(decoder.u64(), decoder.u8()), _SHORTEST_SUBSCRIPTION
        )
        return cls(what, decoder.string() if version >= _SUBSCRIBE_HOSTNAME_VERSION else "")


@dataclass(slots=True)
class MMonSubscribeAck:
    """Answers clients that lack MON_STATEFUL_SUB: renew within ``interval_s``."""

    TYPE: ClassVar = MessageType.MON_SUBSCRIBE_ACK
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    interval_s: int
    fsid: UUID

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encoder.u32(self.interval_s)
        encode_uuid(encoder, self.fsid)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        return cls(decoder.u32(), decode_uuid(decoder))


@dataclass(slots=True)
class MMonCommand:
    """A command for the monitors; its input travels in the data segment."""

    TYPE: ClassVar = MessageType.MON_COMMAND
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    """Must be that of the monitor map: any other is refused with EPERM."""
    cmd: list[str]
    """One element, a JSON object with the ``prefix`` of the command and its arguments."""
    map_version: int = 0

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encode_paxos(encoder, self.map_version)
        encode_uuid(encoder, self.fsid)
        encoder.sequence(self.cmd, encoder.string)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        map_version = decode_paxos(decoder)
        return cls(decode_uuid(decoder), decoder.sequence(decoder.string, 4), map_version)


@dataclass(slots=True)
class MMonCommandAck:
    """How a command went; its output travels in the data segment."""

    TYPE: ClassVar = MessageType.MON_COMMAND_ACK
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    r: int
    """0, or a negative Linux error number."""
    rs: str
    """Status text."""
    cmd: list[str]
    """The command, repeated."""
    map_version: int = 0
    """Epoch of the map from which on the command has its effect."""

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encode_paxos(encoder, self.map_version)
        encoder.i32(self.r)
        encoder.string(self.rs)
        encoder.sequence(self.cmd, encoder.string)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        map_version = decode_paxos(decoder)
        return cls(decoder.i32(), decoder.string(), decoder.sequence(decoder.string, 4), map_version)


@dataclass(slots=True)
class MMonGetVersion:
    """Asks how new a map is."""

    TYPE: ClassVar = MessageType.MON_GET_VERSION
    VERSION: ClassVar = 1
    COMPAT_VERSION: ClassVar = 1

    handle: int
    """Comes back in the answer."""
    what: str
    """Map name, as in subscriptions."""

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encoder.u64(self.handle)
        encoder.string(self.what)

    @classmethod
    def decode(cls, decoder: Decoder, _version: int, _features: int) -> Self:
        """Read the front."""
        return cls(decoder.u64(), decoder.string())


@dataclass(slots=True)
class MMonGetVersionReply:
    """The newest and the oldest version of a map that the monitors hold."""

    TYPE: ClassVar = MessageType.MON_GET_VERSION_REPLY
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2

    handle: int
    version: int
    oldest_version: int = 0

    def encode(self, encoder: Encoder, _features: int) -> None:
        """Append the front."""
        encoder.u64(self.handle)
        encoder.u64(self.version)
        encoder.u64(self.oldest_version)

    @classmethod
    def decode(cls, decoder: Decoder, version: int, _features: int) -> Self:
        """Read the front."""
        handle, newest = decoder.u64(), decoder.u64()
        return cls(handle, newest, decoder.u64() if version >= _GET_VERSION_OLDEST_VERSION else 0)
