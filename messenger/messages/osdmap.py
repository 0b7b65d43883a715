"""The OSD map as clients see it: pools, OSDs and their addresses (protocol.md §6.6)."""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Self, TypeVar
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.codec import Buffer, Decoder
from messenger.denc.utime import UTime
from messenger.errors import DecodeError, LocalError
from messenger.messages.fields import decode_uuid
from messenger.messages.osdmap_incremental import (
    SHORTEST_POOL_ENTRY,
    SHORTEST_POOL_NAME_ENTRY,
    Incremental,
    check_crc,
    open_sections,
)
from messenger.messages.osdmap_pgs import (
    PgExceptions,
    decode_exceptions,
    decode_osds,
    decode_primaries,
    skip_profiles,
)
from messenger.messages.pool import Pool

T = TypeVar("T")

DEFAULT_AFFINITY = 0x10000
"""Primary affinity of an OSD of which nothing else was said."""

_SHORTEST_ADDRVEC = 5


class OsdState(IntEnum):
    """Bits of :attr:`Osd.state`."""

    EXISTS = 1 << 0
    UP = 1 << 1
    AUTOOUT = 1 << 2
    NEW = 1 << 3
    FULL = 1 << 4
    NEARFULL = 1 << 5
    BACKFILLFULL = 1 << 6
    DESTROYED = 1 << 7
    NOUP = 1 << 8
    NODOWN = 1 << 9
    NOIN = 1 << 10
    NOOUT = 1 << 11
    STOP = 1 << 12


class MapFlag(IntEnum):
    """Bits of :attr:`OSDMap.flags`."""

    NEARFULL = 1 << 0
    FULL = 1 << 1
    PAUSERD = 1 << 2
    PAUSEWR = 1 << 3
    PAUSEREC = 1 << 4
    NOUP = 1 << 5
    NODOWN = 1 << 6
    NOOUT = 1 << 7
    NOIN = 1 << 8
    NOBACKFILL = 1 << 9
    NORECOVER = 1 << 10
    NOSCRUB = 1 << 11
    NODEEP_SCRUB = 1 << 12
    NOTIERAGENT = 1 << 13
    NOREBALANCE = 1 << 14
    SORTBITWISE = 1 << 15
    RECOVERY_DELETES = 1 << 19
    PURGED_SNAPDIRS = 1 << 20
    NOSNAPTRIM = 1 << 21
    PGLOG_HARDLIMIT = 1 << 22
    NOAUTOSCALE = 1 << 23


@dataclass(frozen=True, slots=True)
class Osd:
    """One OSD as clients see it."""

    state: int = 0
    """:class:`OsdState` bits."""
    weight: int = 0
    """16.16 fixed point: 0 is out, 0x10000 fully in."""
    client_addrs: AddrVec = field(default_factory=AddrVec)
    primary_affinity: int = DEFAULT_AFFINITY
    """16.16 fixed point: how readily it becomes the primary of a placement group."""

    @property
    def exists(self) -> bool:
        """The number is in use."""
        return bool(self.state & OsdState.EXISTS)

    @property
    def is_up(self) -> bool:
        """The daemon answers."""
        return self.exists and bool(self.state & OsdState.UP)

    @property
    def is_in(self) -> bool:
        """Data is placed on it."""
        return self.exists and self.weight > 0


@dataclass(slots=True)
class OSDMap:
    """One epoch of the map. :meth:`apply` makes the next one and leaves this one alone."""

    fsid: UUID
    epoch: int
    created: UTime
    modified: UTime
    pools: dict[int, Pool]
    pool_names: dict[int, str]
    pool_max: int
    """Highest pool id ever given out."""
    flags: int
    """:class:`MapFlag` bits."""
    osds: list[Osd]
    """By OSD id; its length is Ceph's max_osd."""
    crush: bytes = b""
    """The CRUSH map, encoded."""
    pg_exceptions: PgExceptions = field(default_factory=PgExceptions)

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Read a full map; what is not kept here is skipped, after its crc was checked.

        Raises:
            DecodeError: cut short, malformed, crc mismatch, or older than Luminous.
        """
        view = memoryview(data)
        client, tail, crc_at = open_sections(view, "OSD map")
        check_crc("OSD map", tail.u32(), view[:crc_at])
        return cls._decode_client(client)

    @classmethod
    def _decode_client(cls, body: Decoder) -> Self:
        osdmap = cls(
            fsid=decode_uuid(body),
            epoch=body.u32(),
            created=UTime.decode(body),
            modified=UTime.decode(body),
            pools=body.mapping(body.i64, lambda: Pool.decode(body), SHORTEST_POOL_ENTRY),
            pool_names=body.mapping(body.i64, body.string, SHORTEST_POOL_NAME_ENTRY),
            pool_max=body.i32(),
            flags=body.u32(),
            osds=[],
        )
        max_osd = body.i32()
        states, weights = body.sequence(body.u32, 4), body.sequence(body.u32, 4)
        addrs = body.sequence(lambda: AddrVec.decode(body), _SHORTEST_ADDRVEC)
        if not max_osd == len(states) == len(weights) == len(addrs):
            counts = f"{len(states)} states, {len(weights)} weights, {len(addrs)} addresses"
            raise DecodeError(f"OSD map with max_osd {max_osd} has {counts}")
        pg_temp, primary_temp = decode_osds(body), decode_primaries(body)
        affinities = body.sequence(body.u32, 4) or [DEFAULT_AFFINITY] * max_osd
        if len(affinities) != max_osd:
            raise DecodeError(f"OSD map with max_osd {max_osd} has {len(affinities)} primary affinities")
        osdmap.osds = [Osd(*values) for values in zip(states, weights, addrs, affinities, strict=True)]
        osdmap.crush = body.blob()
        skip_profiles(body)
        osdmap.pg_exceptions = decode_exceptions(body, pg_temp, primary_temp)
        return osdmap

    def apply(self, incremental: Incremental) -> "OSDMap":
        """The next epoch's map, by the rules of §6.6 for the fields that are kept here.

        Raises:
            LocalError: the incremental is not for this map's next epoch.
            DecodeError: it speaks of OSDs that do not exist, or its full map is malformed.
        """
        if incremental.fsid != self.fsid or incremental.epoch != self.epoch + 1:
            raise LocalError(
                f"an incremental for epoch {incremental.epoch} of {incremental.fsid} "
                f"does not follow epoch {self.epoch} of {self.fsid}"
            )
        if incremental.fullmap:
            return OSDMap.decode(incremental.fullmap)
        return OSDMap(
            fsid=self.fsid,
            epoch=incremental.epoch,
            created=self.created,
            modified=incremental.modified,
            pools=self._next_pools(incremental),
            pool_names=_without(self.pool_names | incremental.new_pool_names, incremental.old_pools),
            pool_max=self.pool_max if incremental.new_pool_max == -1 else incremental.new_pool_max,
            flags=self.flags if incremental.new_flags < 0 else incremental.new_flags,
            osds=self._next_osds(incremental),
            crush=incremental.crush or self.crush,
            pg_exceptions=self.pg_exceptions.apply(incremental.pg_changes),
        )

    def _next_pools(self, incremental: Incremental) -> dict[int, Pool]:
        changed = {
            pool_id: replace(pool, last_change=incremental.epoch)
            for pool_id, pool in incremental.new_pools.items()
        }
        return _without(self.pools | changed, incremental.old_pools)

    def _next_osds(self, incremental: Incremental) -> list[Osd]:
        """Order matters: an OSD may be reweighted, marked down and up again in one step."""
        osds = list(self.osds)
        if incremental.new_max_osd >= 0:
            osds = osds[: incremental.new_max_osd]
            osds += [Osd()] * (incremental.new_max_osd - len(osds))
        affinities = incremental.new_primary_affinity
        touched = (*incremental.new_weight, *affinities, *incremental.new_state, *incremental.new_up_client)
        strangers = [osd_id for osd_id in touched if not 0 <= osd_id < len(osds)]
        if strangers:
            raise DecodeError(f"incremental OSD map changes osd.{strangers[0]}, max_osd is {len(osds)}")
        for osd_id, weight in incremental.new_weight.items():
            osds[osd_id] = _reweighted(osds[osd_id], weight)
        for osd_id, affinity in affinities.items():
            osds[osd_id] = replace(osds[osd_id], primary_affinity=affinity)
        for osd_id, bits in incremental.new_state.items():
            osds[osd_id] = _flipped(osds[osd_id], bits or OsdState.UP)
        for osd_id, addrs in incremental.new_up_client.items():
            up = (osds[osd_id].state | OsdState.EXISTS | OsdState.UP) & ~OsdState.STOP
            osds[osd_id] = replace(osds[osd_id], state=up, client_addrs=addrs)
        return osds


def _without(items: dict[int, T], keys: list[int]) -> dict[int, T]:
    dropped = set(keys)
    return {key: value for key, value in items.items() if key not in dropped}


def _reweighted(osd: Osd, weight: int) -> Osd:
    """An OSD that is in exists and is neither new nor marked out automatically any more."""
    if not weight:
        return replace(osd, weight=0)
    state = (osd.state | OsdState.EXISTS) & ~(OsdState.AUTOOUT | OsdState.NEW)
    return replace(osd, weight=weight, state=state)


def _flipped(osd: Osd, bits: int) -> Osd:
    """State bits flip; taking EXISTS away destroys the OSD, which leaves only its weight."""
    if osd.state & bits & OsdState.EXISTS:
        return Osd(weight=osd.weight)
    return replace(osd, state=osd.state ^ bits)
