"""Messages between monitors, including those on behalf of clients and daemons (docs/protocol.md §6.2).

A monitor that is not the leader forwards requests that only the leader can answer (MForward), and the leader
routes its reply back (MRoute). Both carry a whole message: the header of msgr v1, its footer without a signature,
the parts.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from messenger.cephx.keys import CryptoKey
from messenger.crc import crc32c
from messenger.denc.address import BLANK, AddrVec, EntityAddr
from messenger.denc.codec import Encoder
from messenger.denc.entity import AuthName, EntityName
from messenger.denc.layout import I64, U8, U16, U32, U64, Blob
from messenger.denc.utime import UTime
from messenger.messages.layout import Enveloped, Fields, Paxos
from messenger.messages.message import PRIORITY_DEFAULT, Message
from messenger.messages.types import MessageType

_FOOTER_COMPLETE = 1
_CRC_SEED = 0
_HEADER_BEFORE_CRC_SIZE = 49


@dataclass(slots=True)
class EmbeddedMessage(Fields):
    """A message inside another one, in the layout of msgr v1 (§3.7)."""

    seq: U64 = 0
    tid: U64 = 0
    type: U16 = MessageType.PING
    priority: U16 = PRIORITY_DEFAULT
    version: U16 = 1
    front_bytes: U32 = 0
    """Lengths of the three parts, which are encoded again before each part."""
    middle_bytes: U32 = 0
    data_bytes: U32 = 0
    data_off: U16 = 0
    src_type: U8 = 0
    """Type of the sender; 0, as ``src_num``, if a monitor has not filled it in."""
    src_num: I64 = 0
    compat_version: U16 = 1
    reserved: U16 = 0
    header_crc: U32 = 0
    front_crc: U32 = 0
    middle_crc: U32 = 0
    data_crc: U32 = 0
    flags: U8 = _FOOTER_COMPLETE
    front: Blob = b""
    middle: Blob = b""
    data: Blob = b""

    @classmethod
    def of(cls, message: Message, src: EntityName, features: int) -> Self:
        """Create an embedded message, with its crcs.

        Args:
            message: its front is encoded again if it has a payload.
            src: the sender.
            features: features of both the peer and the original sender.
        """
        message.encode_front(features)
        front, middle, data = bytes(message.front), bytes(message.middle), bytes(message.data)
        embedded = cls(
            seq=message.seq,
            tid=message.tid,
            type=message.type,
            priority=message.priority,
            version=message.version,
            front_bytes=len(front),
            middle_bytes=len(middle),
            data_bytes=len(data),
            data_off=message.data_off,
            src_type=src.type,
            src_num=src.num,
            compat_version=message.compat_version,
            front_crc=crc32c(front, _CRC_SEED),
            middle_crc=crc32c(middle, _CRC_SEED),
            data_crc=crc32c(data, _CRC_SEED),
            front=front,
            middle=middle,
            data=data,
        )
        encoder = Encoder()
        embedded.encode(encoder, features)
        header = encoder.getvalue()[:_HEADER_BEFORE_CRC_SIZE]
        embedded.header_crc = crc32c(header, _CRC_SEED)
        return embedded

    def message(self) -> Message:
        """The embedded message, without decoding its payload."""
        return Message(
            self.type,
            front=self.front,
            middle=self.middle,
            data=self.data,
            tid=self.tid,
            priority=self.priority,
            version=self.version,
            compat_version=self.compat_version,
            seq=self.seq,
            flags=self.flags,
            data_off=self.data_off,
        )


@dataclass(frozen=True, slots=True)
class MonCap(Enveloped):
    """A client's capabilities at the monitors, as text."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "monitor capability"

    text: str = ""


@dataclass(slots=True)
class MForward(Fields):
    """To the leader: the message of a client."""

    TYPE: ClassVar = MessageType.FORWARD
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    tid: U64
    """``session_mon_tid`` of the reply."""
    client_type: U8
    client_addrs: AddrVec
    client_socket_addr: EntityAddr
    """The real remote address of the client's link."""
    client_caps: MonCap
    embedded: EmbeddedMessage
    con_features: U64
    """Features negotiated between the client and the forwarding monitor."""
    entity_name: AuthName


@dataclass(slots=True)
class MRoute(Fields):
    """From the leader: a message for a client of the receiver."""

    TYPE: ClassVar = MessageType.ROUTE
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    session_mon_tid: U64
    dest_type: U8 = 0
    """Retired, as are the next two fields."""
    dest_num: I64 = 0
    dest_addr: EntityAddr = BLANK
    embedded: EmbeddedMessage | None = None
    """None if the request needs no reply any more."""
    send_osdmap_first: U32 = 0
    """If not 0, the client must first get the OSD maps from this epoch on."""


@dataclass(slots=True)
class MMonPing(Fields):
    """Probe with which monitors measure their connectivity."""

    TYPE: ClassVar = MessageType.MON_PING
    COMPAT_VERSION: ClassVar = 1

    op: U8
    """1 ping, 2 reply."""
    stamp: UTime
    """Clock of the pinging monitor; the reply repeats it."""
    tracker: Blob = b""
    """The sender's connectivity to the other monitors, encoded."""
    padding: Blob = b""


@dataclass(slots=True)
class MMonUsedPendingKeys(Fields):
    """To the leader: these daemons have authenticated with their pending keys, which may replace the old ones."""

    TYPE: ClassVar = MessageType.MON_USED_PENDING_KEYS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    used_pending_keys: dict[AuthName, CryptoKey]
