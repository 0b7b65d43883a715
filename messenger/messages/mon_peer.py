"""Messages between monitors, also on behalf of clients and daemons (docs/protocol.md §6.2).

A monitor that is not the leader forwards (MForward) what only the leader can answer, and the leader routes its
answer back (MRoute). Both carry a whole message: the header of msgr v1, its footer without signature, the parts.
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
    """A message inside another one, as msgr v1 would send it (§3.7)."""

    seq: U64 = 0
    tid: U64 = 0
    type: U16 = MessageType.PING
    priority: U16 = PRIORITY_DEFAULT
    version: U16 = 1
    front_bytes: U32 = 0
    """The lengths of the three parts, once more."""
    middle_bytes: U32 = 0
    data_bytes: U32 = 0
    data_off: U16 = 0
    src_type: U8 = 0
    """Type of the sender; zeros in the ``src`` fields if a monitor did not fill them in."""
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
        """A message ready to be embedded, its crcs filled in.

        Args:
            message: its front is encoded again if it has a payload.
            src: whom it comes from.
            features: of both the peer and the original sender.
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
        """What is embedded, its payload not decoded."""
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
    """What a client may ask of the monitors, in words."""

    VERSION: ClassVar = 4
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 4
    WHAT: ClassVar = "monitor capability"

    text: str = ""


@dataclass(slots=True)
class MForward(Fields):
    """To the leader: a client's message."""

    TYPE: ClassVar = MessageType.FORWARD
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 4
    OLDEST: ClassVar = 4

    tid: U64
    """The answer's ``session_mon_tid``."""
    client_type: U8
    client_addrs: AddrVec
    client_socket_addr: EntityAddr
    """What the client's link really comes from."""
    client_caps: MonCap
    embedded: EmbeddedMessage
    con_features: U64
    """Negotiated between the client and the monitor that forwards."""
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
    """Retired, as are the next two."""
    dest_num: I64 = 0
    dest_addr: EntityAddr = BLANK
    embedded: EmbeddedMessage | None = None
    """None: the request needs no answer any more."""
    send_osdmap_first: U32 = 0
    """If not 0, the client is to get OSD maps from that epoch on before the answer."""


@dataclass(slots=True)
class MMonPing(Fields):
    """Probe by which monitors find out which of them reach each other."""

    TYPE: ClassVar = MessageType.MON_PING
    COMPAT_VERSION: ClassVar = 1

    op: U8
    """1 ping, 2 reply."""
    stamp: UTime
    """The pinger's clock; the reply repeats it."""
    tracker: Blob = b""
    """How well the sender reaches the others, encoded."""
    padding: Blob = b""


@dataclass(slots=True)
class MMonUsedPendingKeys(Fields):
    """To the leader: these daemons logged in with their new keys, the old ones may go."""

    TYPE: ClassVar = MessageType.MON_USED_PENDING_KEYS
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    used_pending_keys: dict[AuthName, CryptoKey]
