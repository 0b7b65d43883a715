"""Discovery, elections and agreement of the monitors: messages between monitors only (docs/protocol.md §6.2)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar
from uuid import UUID

from messenger.denc.address import BLANK, AddrVec, EntityAddr
from messenger.denc.codec import Decoder
from messenger.denc.layout import I32, I64, U8, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import F64, Enveloped, Fields, Inside, Paxos
from messenger.messages.monmap import MonFeature, MonMap
from messenger.messages.types import MessageType

_MAP = Inside(lambda data: MonMap.decode(Decoder(data)))


class ElectionOp(IntEnum):
    """Values of :attr:`MMonElection.op`."""

    PROPOSE = 1
    ACK = 2
    NAK = 3
    VICTORY = 4


@dataclass(slots=True)
class MMonElection(Fields):
    """A monitor proposes itself as leader, supports another one, or announces its victory."""

    TYPE: ClassVar = MessageType.MON_ELECTION
    VERSION: ClassVar = 9
    COMPAT_VERSION: ClassVar = 5
    OLDEST: ClassVar = 9

    fsid: UUID
    op: I32
    """An :class:`ElectionOp`."""
    epoch: U32
    """Odd during an election."""
    monmap: Annotated[bytes, _MAP] = b""
    quorum: set[I32] = field(default_factory=set)
    """Ranks of the monitors in the quorum; in VICTORY."""
    quorum_features: U64 = 0
    retired: U64 = field(default=0, kw_only=True)
    retired_too: U64 = field(default=0, kw_only=True)
    sharing: bytes = b""
    """Commands that the leader supports, uninterpreted."""
    mon_features: MonFeature = 0
    metadata: dict[str, str] = field(default_factory=dict)
    """Properties of the sender, as ``ceph mon metadata`` shows them."""
    mon_release: Annotated[U8, Since(8)] = 0
    scoring: Annotated[bytes, Since(9)] = b""
    """The sender's connectivity to the other monitors, uninterpreted."""
    strategy: Annotated[U8, Since(9)] = 0
    """1 classic, 2 disallow, 3 connectivity."""


class PaxosOp(IntEnum):
    """Values of :attr:`MMonPaxos.op`."""

    COLLECT = 1
    LAST = 2
    BEGIN = 3
    ACCEPT = 4
    COMMIT = 5
    LEASE = 6
    LEASE_ACK = 7


@dataclass(frozen=True, slots=True)
class FeatureMap(Enveloped):
    """Number of peers by entity type and features."""

    VERSION: ClassVar = 1

    counts: dict[U32, dict[U64, U64]] = field(default_factory=dict)


@dataclass(slots=True)
class MMonPaxos(Fields):
    """One step of the agreement on the next version of the monitors' store."""

    TYPE: ClassVar = MessageType.MON_PAXOS
    VERSION: ClassVar = 4
    COMPAT_VERSION: ClassVar = 3
    OLDEST: ClassVar = 3

    epoch: U32
    """Epoch of the election."""
    op: I32
    """A :class:`PaxosOp`."""
    first_committed: U64 = 0
    last_committed: U64 = 0
    pn_from: U64 = 0
    """The newest proposal number that the sender has accepted, as far as the receiver knows."""
    pn: U64 = 0
    """Proposal number."""
    uncommitted_pn: U64 = 0
    lease_timestamp: UTime = EPOCH
    sent_timestamp: UTime = EPOCH
    latest_version: U64 = 0
    latest_value: bytes = b""
    values: dict[U64, bytes] = field(default_factory=dict)
    """Transactions of the store by version, uninterpreted."""
    feature_map: Annotated[bytes, Inside(lambda data: FeatureMap.decode(Decoder(data))), Since(4)] = b""
    """An encoded :class:`FeatureMap`; only in LEASE_ACK."""


class ProbeOp(IntEnum):
    """Values of :attr:`MMonProbe.op`."""

    PROBE = 1
    REPLY = 2
    SLURP = 3
    SLURP_LATEST = 4
    DATA = 5
    MISSING_FEATURES = 6


@dataclass(slots=True)
class MMonProbe(Fields):
    """A starting monitor's probe for the other monitors, and their reply."""

    TYPE: ClassVar = MessageType.MON_PROBE
    VERSION: ClassVar = 8
    COMPAT_VERSION: ClassVar = 5
    OLDEST: ClassVar = 8

    fsid: UUID
    op: I32
    """A :class:`ProbeOp`."""
    name: str
    quorum: set[I32] = field(default_factory=set)
    monmap: Annotated[bytes, _MAP] = b""
    paxos_first_version: U64 = 0
    paxos_last_version: U64 = 0
    has_ever_joined: bool = False
    required_features: U64 = 0
    mon_release: Annotated[U8, Since(7)] = 0
    leader: Annotated[I32, Since(8)] = -1


@dataclass(slots=True)
class MMonJoin(Fields):
    """Requests that a monitor is added to the monitor map."""

    TYPE: ClassVar = MessageType.MON_JOIN
    VERSION: ClassVar = 3
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    map_version: Paxos = field(default=0, kw_only=True)
    fsid: UUID
    name: str
    addrs: AddrVec
    force_location: Annotated[bool, Since(3)] = False
    crush_location: Annotated[dict[str, str], Since(3)] = field(default_factory=dict)


class SyncOp(IntEnum):
    """Values of :attr:`MMonSync.op`."""

    GET_COOKIE_FULL = 1
    GET_COOKIE_RECENT = 2
    COOKIE = 3
    GET_CHUNK = 4
    CHUNK = 5
    LAST_CHUNK = 6
    NO_COOKIE = 8


@dataclass(slots=True)
class MMonSync(Fields):
    """Copies the store of another monitor, chunk by chunk."""

    TYPE: ClassVar = MessageType.MON_SYNC
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    op: U32
    """A :class:`SyncOp`."""
    cookie: U64 = 0
    last_committed: U64 = 0
    last_key: tuple[str, str] = ("", "")
    """Prefix and key."""
    chunk: bytes = b""
    """A transaction of the store, uninterpreted."""
    reply_to_type: U8 = 0
    """Retired, as are the next two fields."""
    reply_to_num: I64 = 0
    reply_to_addr: EntityAddr = BLANK


@dataclass(frozen=True, slots=True)
class ScrubResult(Enveloped):
    """Crc and number of keys, by prefix of the store."""

    VERSION: ClassVar = 1

    crcs: dict[str, U32] = field(default_factory=dict)
    keys: dict[str, U64] = field(default_factory=dict)


@dataclass(slots=True)
class MMonScrub(Fields):
    """The leader requests checksums of the stores, and the replies."""

    TYPE: ClassVar = MessageType.MON_SCRUB
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 2
    OLDEST: ClassVar = 2

    op: U8
    """1 scrub, 2 result."""
    version: U64 = 0
    result: ScrubResult = field(default_factory=ScrubResult)
    keys: I32 = 0
    """Number of keys per round."""
    last_key: tuple[str, str] = ("", "")


@dataclass(slots=True)
class MTimeCheck2(Fields):
    """The leader's measurement of the monitors' clocks."""

    TYPE: ClassVar = MessageType.TIMECHECK2
    COMPAT_VERSION: ClassVar = 1

    op: I32
    """1 ping, 2 pong, 3 report."""
    epoch: U64 = 0
    round: U64 = 0
    timestamp: UTime = EPOCH
    skews_s: dict[I32, F64] = field(default_factory=dict)
    """Clock skews by rank."""
    latencies_s: dict[I32, F64] = field(default_factory=dict)


@dataclass(slots=True)
class MMonGlobalID(Fields):
    """A monitor requests more global ids from the leader."""

    TYPE: ClassVar = MessageType.MON_GLOBAL_ID
    COMPAT_VERSION: ClassVar = 1

    map_version: Paxos = field(default=0, kw_only=True)
    old_max_id: U64 = 0
