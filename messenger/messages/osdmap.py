"""The OSD map: pools, OSDs and their addresses, and exceptions to CRUSH's placement (docs/protocol.md §6.6)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self
from uuid import UUID

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.denc.layout import Blob
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError, LocalError
from messenger.messages.layout import ANY_VERSION
from messenger.messages.osd_info import Osd, OsdState
from messenger.messages.osdmap_apply import next_values
from messenger.messages.osdmap_incremental import Incremental
from messenger.messages.osdmap_wire import (
    CLIENT_SECTION,
    OSD_SECTION,
    SectionForm,
    check_crc,
    encode_frame,
    newest_version,
    open_sections,
)
from messenger.messages.pg import PgId
from messenger.messages.pool import Pool

__all__ = ["MapFlag", "OSDMap", "Osd", "OsdState"]

_CLIENT_VERSION = 10
_OSD_VERSION = 9
_CLIENT_LISTS = {"osd_state": "state", "osd_weight": "weight", "client_addrs": "client_addrs"}
_OSD_LISTS = {
    "hb_back_addrs": "hb_back_addrs",
    "osd_info": "info",
    "cluster_addrs": "cluster_addrs",
    "osd_uuid": "uuid",
    "osd_xinfo": "xinfo",
    "hb_front_addrs": "hb_front_addrs",
}
_PER_OSD = _CLIENT_LISTS | _OSD_LISTS
"""Lists on the wire with one item for each OSD, and the attribute of :class:`Osd` that the item becomes."""


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


@dataclass(slots=True)
class OSDMap:
    """One epoch of the map. :meth:`apply` returns the next one and does not change this one."""

    fsid: UUID
    epoch: int
    created: UTime
    modified: UTime
    pools: dict[int, Pool]
    pool_names: dict[int, str]
    pool_max: int
    """Highest pool id ever assigned."""
    flags: int
    """:class:`MapFlag` bits."""
    osds: list[Osd]
    """OSDs by id; the length is Ceph's max_osd."""

    pg_temp: dict[PgId, list[int]] = field(default_factory=dict)
    """OSDs that serve a placement group temporarily, instead of those of CRUSH."""
    primary_temp: dict[PgId, int] = field(default_factory=dict)
    osd_primary_affinity: list[int] = field(default_factory=list)
    """By OSD id, 16.16 fixed point; empty: DEFAULT_PRIMARY_AFFINITY for all."""
    crush: Blob = b""
    """The encoded CRUSH map."""
    erasure_code_profiles: dict[str, dict[str, str]] = field(default_factory=dict)
    pg_upmap: dict[PgId, list[int]] = field(default_factory=dict)
    """OSDs that replace the mapping of CRUSH."""
    pg_upmap_items: dict[PgId, list[tuple[int, int]]] = field(default_factory=dict)
    """Single OSDs to replace in the mapping of CRUSH: (from, to)."""
    crush_version: int = 1
    new_removed_snaps: dict[int, dict[int, int]] = field(default_factory=dict)
    """Snapshots that this epoch removed, by pool, as ranges; the next field likewise those purged."""
    new_purged_snaps: dict[int, dict[int, int]] = field(default_factory=dict)
    last_up_change: UTime = EPOCH
    last_in_change: UTime = EPOCH
    pg_upmap_primaries: dict[PgId, int] = field(default_factory=dict)

    blocklist: dict[EntityAddr, UTime] = field(default_factory=dict)
    """Clients that OSDs refuse, and the time of expiration."""
    cluster_snapshot_epoch: int = 0
    cluster_snapshot: str = ""
    nearfull_ratio: float = 0.0
    full_ratio: float = 0.0
    backfillfull_ratio: float = 0.0
    require_min_compat_client: int = 0
    """A release number, as is the next field."""
    require_osd_release: int = 0
    removed_snaps_queue: dict[int, dict[int, int]] = field(default_factory=dict)
    """Snapshots that are not purged everywhere yet, by pool, as ranges."""
    crush_node_flags: dict[int, int] = field(default_factory=dict)
    """:class:`OsdState` bits by CRUSH node."""
    device_class_flags: dict[int, int] = field(default_factory=dict)
    stretch_mode_enabled: bool = False
    stretch_bucket_count: int = 0
    degraded_stretch_mode: int = 0
    recovering_stretch_mode: int = 0
    stretch_mode_bucket: int = 0
    range_blocklist: dict[EntityAddr, UTime] = field(default_factory=dict)
    allow_crimson: bool = False

    client_version: int = field(default=_CLIENT_VERSION, compare=False)
    """Version of the client section: the newest that :meth:`encode` writes."""
    osd_version: int = field(default=_OSD_VERSION, compare=False)
    """Version of the OSD section; the contents of the map may require a later one."""
    client_tail: bytes = b""
    """Bytes after the supported fields of the client section."""
    osd_tail: bytes = b""

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Check the crc of a full map and decode it.

        Raises:
            DecodeError: the bytes are too short or malformed, the crc is wrong, or the map is older than Luminous.
        """
        view = memoryview(data)
        client, osd, rest, crc_at = open_sections(view, "OSD map")
        check_crc("OSD map", rest.u32(), view[:crc_at])
        values = CLIENT_SECTION.decode(client) | OSD_SECTION.decode(osd)
        return cls(
            **_gather(values),
            client_version=client.struct_v,
            osd_version=osd.struct_v,
            client_tail=client.rest(),
            osd_tail=osd.rest(),
        )

    def encode(self, features: int = ALL_FEATURES) -> bytes:
        """The encoded map, crc included, for a peer with these features.

        The CRUSH map is not converted: for peers that lack features it needs, the caller must put in another one.
        """
        forms = (
            SectionForm(CLIENT_SECTION, self.client_version, self.client_tail, _newest_client(features)),
            SectionForm(OSD_SECTION, self._needed_osd_version(), self.osd_tail, _newest_osd(features)),
        )
        return encode_frame(forms, self._values(), features)

    def _values(self) -> dict[str, Any]:
        """The fields of both sections by name."""
        lists = {name: [getattr(osd, attribute) for osd in self.osds] for name, attribute in _PER_OSD.items()}
        names = [item.name for section in (CLIENT_SECTION, OSD_SECTION) for item in section.fields]
        alone = {name: getattr(self, name) for name in names if name not in lists and name != "max_osd"}
        return alone | lists | {"max_osd": len(self.osds)}

    def _needed_osd_version(self) -> int:
        """The version of the OSD section that the contents require: later ones are written only if needed."""
        needed = (
            12 if self.allow_crimson else 11 if self.range_blocklist else 10 if self.stretch_mode_enabled else 0
        )
        return max(self.osd_version, needed)

    def apply(self, incremental: Incremental) -> "OSDMap":
        """The map of the next epoch, by the rules of §6.6.

        Raises:
            LocalError: the incremental is not for this map's next epoch.
            DecodeError: it refers to OSDs that do not exist, or its full map is malformed.
        """
        if incremental.fsid != self.fsid or incremental.epoch != self.epoch + 1:
            raise LocalError(
                f"an incremental for epoch {incremental.epoch} of {incremental.fsid} "
                f"does not follow epoch {self.epoch} of {self.fsid}"
            )
        if incremental.fullmap:
            return OSDMap.decode(incremental.fullmap)
        return OSDMap(**next_values(self, incremental))


def _newest_client(features: int) -> int:
    return newest_version(
        features,
        (Feature.SERVER_REEF, ANY_VERSION),
        (Feature.SERVER_NAUTILUS, 9),
        (Feature.SERVER_MIMIC, 7),
        (Feature.SERVER_LUMINOUS, 6),
    )


def _newest_osd(features: int) -> int:
    return newest_version(
        features,
        (Feature.SERVER_NAUTILUS, ANY_VERSION),
        (Feature.SERVER_MIMIC, 6),
    )


def _gather(values: dict[str, Any]) -> dict[str, Any]:
    """Convert the lists with one item for each OSD into a list of OSDs."""
    max_osd = values.pop("max_osd")
    lists = {attribute: values.pop(name) for name, attribute in _PER_OSD.items()}
    if any(len(items) != max_osd for items in lists.values()):
        counts = ", ".join(f"{len(lists[attribute])} {name}" for name, attribute in _PER_OSD.items())
        raise DecodeError(f"OSD map with max_osd {max_osd} has {counts}")
    affinities = len(values["osd_primary_affinity"])
    if affinities not in (0, max_osd):
        raise DecodeError(f"OSD map with max_osd {max_osd} has {affinities} primary affinities")
    osds = [Osd(**dict(zip(lists, items, strict=True))) for items in zip(*lists.values(), strict=True)]
    return values | {"osds": osds}
