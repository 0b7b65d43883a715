"""Metrics of file system clients, and the load that MDSs announce to each other (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Self

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.layout import I32, U32, U64, Since
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.layout import F32, F64, Codec, Enveloped, Fields, RawEnvelope, codec_of
from messenger.messages.mon_health import EntityInst
from messenger.messages.types import MessageType


class MetricType(IntEnum):
    """Values of :attr:`ClientMetric.type`."""

    CAP_INFO = 0
    READ_LATENCY = 1
    WRITE_LATENCY = 2
    METADATA_LATENCY = 3
    DENTRY_LEASE = 4
    OPENED_FILES = 5
    PINNED_ICAPS = 6
    OPENED_INODES = 7
    READ_IO_SIZES = 8
    WRITE_IO_SIZES = 9


@dataclass(frozen=True, slots=True)
class HitCounts(Enveloped):
    """How often a client has used capabilities or leases that it had, and lacked one."""

    VERSION: ClassVar = 1

    hits: U64 = 0
    misses: U64 = 0
    count: U64 = 0
    """Number of capabilities or entries in its cache."""


@dataclass(frozen=True, slots=True)
class LatencyReport(Enveloped):
    """Latency of one kind of operation."""

    VERSION: ClassVar = 2

    lat: UTime = EPOCH
    """Sum of all latencies."""
    mean: Annotated[UTime, Since(2)] = EPOCH
    sq_sum: Annotated[U64, Since(2)] = 0
    count: Annotated[U64, Since(2)] = 0


@dataclass(frozen=True, slots=True)
class Share(Enveloped):
    """Number of files or inodes in a state, and of all inodes; or number of operations, and of their bytes."""

    VERSION: ClassVar = 1

    count: U64 = 0
    total: U64 = 0


_LATENCIES = (MetricType.READ_LATENCY, MetricType.WRITE_LATENCY, MetricType.METADATA_LATENCY)
METRICS: dict[int, Any] = {
    MetricType.CAP_INFO: HitCounts,
    MetricType.DENTRY_LEASE: HitCounts,
    **dict.fromkeys(_LATENCIES, LatencyReport),
    **dict.fromkeys(range(MetricType.OPENED_FILES, MetricType.WRITE_IO_SIZES + 1), Share),
}
"""Class of the value by :class:`MetricType`."""


def _codec(kind: int) -> Codec:
    return codec_of(METRICS.get(kind, RawEnvelope))


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """One metric of a client."""

    type: U32
    """A :class:`MetricType`, or an unknown one, whose value stays encoded."""
    value: HitCounts | LatencyReport | Share | bytes

    def encode(self, encoder: Encoder, features: int) -> None:
        """Append the type and the value."""
        encoder.u32(self.type)
        _codec(self.type).encode(encoder, self.value, features)

    @classmethod
    def decode(cls, decoder: Decoder, features: int) -> Self:
        """Decode a metric of any type; raises DecodeError."""
        kind = decoder.u32()
        return cls(kind, _codec(kind).decode(decoder, features))


@dataclass(slots=True)
class MClientMetrics(Fields):
    """Metrics of a client, for its MDS."""

    TYPE: ClassVar = MessageType.CLIENT_METRICS
    COMPAT_VERSION: ClassVar = 1

    updates: list[ClientMetric] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CapHits(Enveloped):
    """As in :class:`HitCounts`."""

    VERSION: ClassVar = 1

    hits: U64 = 0
    misses: U64 = 0


@dataclass(frozen=True, slots=True)
class Latency(Enveloped):
    """As in :class:`LatencyReport`."""

    VERSION: ClassVar = 3

    lat: UTime = EPOCH
    updated: Annotated[bool, Since(2)] = False
    """True if the client has sent the value since the last message; so in the classes below."""
    mean: Annotated[UTime, Since(3)] = EPOCH
    sq_sum: Annotated[U64, Since(3)] = 0
    count: Annotated[U64, Since(3)] = 0


@dataclass(frozen=True, slots=True)
class UpdatedHits(Enveloped):
    """As in :class:`HitCounts`."""

    VERSION: ClassVar = 1

    hits: U64 = 0
    misses: U64 = 0
    updated: bool = False


@dataclass(frozen=True, slots=True)
class UpdatedShare(Enveloped):
    """As in :class:`Share`."""

    VERSION: ClassVar = 1

    count: U64 = 0
    total: U64 = 0
    updated: bool = False


@dataclass(frozen=True, slots=True)
class ClientMetrics(Enveloped):
    """The metrics of one client (Metrics)."""

    VERSION: ClassVar = 4

    update_type: U32 = 0
    """0 new values, 1 the client has no session any more."""
    caps: CapHits = CapHits()
    read_latency: Latency = Latency()
    write_latency: Latency = Latency()
    metadata_latency: Latency = Latency()
    dentry_lease: Annotated[UpdatedHits, Since(2)] = UpdatedHits()
    opened_files: Annotated[UpdatedShare, Since(3)] = UpdatedShare()
    pinned_icaps: Annotated[UpdatedShare, Since(3)] = UpdatedShare()
    opened_inodes: Annotated[UpdatedShare, Since(3)] = UpdatedShare()
    read_io_sizes: Annotated[UpdatedShare, Since(4)] = UpdatedShare()
    write_io_sizes: Annotated[UpdatedShare, Since(4)] = UpdatedShare()


@dataclass(frozen=True, slots=True)
class RankMetrics(Enveloped):
    """The metrics of the clients of one rank (metrics_message_t)."""

    VERSION: ClassVar = 1

    seq: U64 = 0
    rank: I32 = -1
    clients: list[tuple[EntityInst, ClientMetrics]] = field(default_factory=list)


@dataclass(slots=True)
class MMDSMetrics(Fields):
    """Metrics of the clients of an MDS, for rank 0."""

    TYPE: ClassVar = MessageType.MDS_METRICS
    COMPAT_VERSION: ClassVar = 1

    metrics: RankMetrics = field(default_factory=RankMetrics)


@dataclass(frozen=True, slots=True)
class DecayCounter(Enveloped):
    """A counter that halves in a fixed time."""

    VERSION: ClassVar = 5
    COMPAT: ClassVar = 4
    OLDEST: ClassVar = 5
    WHAT: ClassVar = "decay counter"

    value: F64 = 0.0


@dataclass(frozen=True, slots=True)
class DirLoad(Enveloped):
    """Operations on directory fragments (dirfrag_load_vec_t)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "directory load"

    inode_reads: DecayCounter = DecayCounter()
    inode_writes: DecayCounter = DecayCounter()
    readdirs: DecayCounter = DecayCounter()
    fetches: DecayCounter = DecayCounter()
    stores: DecayCounter = DecayCounter()


@dataclass(frozen=True, slots=True)
class MdsLoad(Enveloped):
    """Load of an MDS (mds_load_t)."""

    VERSION: ClassVar = 2
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "load of an MDS"

    auth: DirLoad = DirLoad()
    """On directories of which it is authoritative."""
    all: DirLoad = DirLoad()
    req_rate: F64 = 0.0
    cache_hit_rate: F64 = 0.0
    queue_len: F64 = 0.0
    cpu_load_avg: F64 = 0.0


@dataclass(slots=True)
class MHeartbeat(Fields):
    """An MDS announces its load to the other MDSs, which balance directories by it."""

    TYPE: ClassVar = MessageType.MDS_HEARTBEAT
    COMPAT_VERSION: ClassVar = 1

    load: MdsLoad = MdsLoad()
    beat: I32 = 0
    """Number of the heartbeat."""
    import_map: dict[I32, F32] = field(default_factory=dict)
    """Load that was imported from each rank."""
