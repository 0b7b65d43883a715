"""Incremental: the changes from one epoch of the OSD map to the next (docs/protocol.md §6.6)."""

from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES, Feature, has_feature
from messenger.denc.layout import Blob
from messenger.denc.utime import EPOCH, UTime
from messenger.errors import DecodeError
from messenger.messages.layout import ANY_VERSION
from messenger.messages.osd_info import OsdXInfo
from messenger.messages.osdmap_wire import (
    INCREMENTAL_CLIENT_SECTION,
    INCREMENTAL_OSD_SECTION,
    SectionForm,
    check_crc,
    encode_frame,
    newest_version,
    open_sections,
)
from messenger.messages.pg import PgId
from messenger.messages.pool import Pool

MAX_OSDS = 100_000
"""Most OSDs accepted in a map; monitors limit them to ``mon_max_osd``, 10,000 by default."""
UNCHANGED_RELEASE = 0xFF
_CLIENT_VERSION = 9
_OSD_VERSION = 9
_LEGACY_OSD_VERSION = 6


@dataclass(slots=True)
class Incremental:
    """The changes from ``epoch - 1`` to ``epoch``. -1, None and UNCHANGED_RELEASE mean unchanged."""

    fsid: UUID
    epoch: int
    modified: UTime = EPOCH
    new_pool_max: int = -1
    new_flags: int = -1
    fullmap: Blob = b""
    """If not empty, an encoded full map that replaces the old one; the fields below are then unused."""
    new_max_osd: int = -1
    new_pools: dict[int, Pool] = field(default_factory=dict)
    new_pool_names: dict[int, str] = field(default_factory=dict)
    old_pools: list[int] = field(default_factory=list)
    new_up_client: dict[int, AddrVec] = field(default_factory=dict)
    """OSDs that were marked up, with their client addresses."""
    new_state: dict[int, int] = field(default_factory=dict)
    """Bits to flip in the states of OSDs; 0 stands for UP."""
    new_weight: dict[int, int] = field(default_factory=dict)
    """16.16 fixed point."""
    crush: Blob = b""
    """If not empty, the new encoded CRUSH map."""
    new_pg_temp: dict[PgId, list[int]] = field(default_factory=dict)
    """An empty list removes the entry."""
    new_primary_temp: dict[PgId, int] = field(default_factory=dict)
    """-1 removes the entry."""
    new_primary_affinity: dict[int, int] = field(default_factory=dict)
    new_erasure_code_profiles: dict[str, dict[str, str]] = field(default_factory=dict)
    old_erasure_code_profiles: list[str] = field(default_factory=list)
    new_pg_upmap: dict[PgId, list[int]] = field(default_factory=dict)
    old_pg_upmap: set[PgId] = field(default_factory=set)
    new_pg_upmap_items: dict[PgId, list[tuple[int, int]]] = field(default_factory=dict)
    old_pg_upmap_items: set[PgId] = field(default_factory=set)
    new_removed_snaps: dict[int, dict[int, int]] = field(default_factory=dict)
    new_purged_snaps: dict[int, dict[int, int]] = field(default_factory=dict)
    new_last_up_change: UTime = EPOCH
    """Zero if unchanged; likewise the next field."""
    new_last_in_change: UTime = EPOCH
    new_pg_upmap_primaries: dict[PgId, int] = field(default_factory=dict)
    old_pg_upmap_primaries: set[PgId] = field(default_factory=set)

    new_hb_back_up: dict[int, AddrVec] = field(default_factory=dict)
    new_up_thru: dict[int, int] = field(default_factory=dict)
    new_last_clean_interval: dict[int, tuple[int, int]] = field(default_factory=dict)
    new_lost: dict[int, int] = field(default_factory=dict)
    new_blocklist: dict[EntityAddr, UTime] = field(default_factory=dict)
    old_blocklist: list[EntityAddr] = field(default_factory=list)
    new_up_cluster: dict[int, AddrVec] = field(default_factory=dict)
    cluster_snapshot: str = ""
    new_uuid: dict[int, UUID] = field(default_factory=dict)
    new_xinfo: dict[int, OsdXInfo] = field(default_factory=dict)
    new_hb_front_up: dict[int, AddrVec] = field(default_factory=dict)
    encode_features: int = 0
    """Features with which the next full map was encoded to compute ``full_crc``."""
    new_nearfull_ratio: float = -1.0
    new_full_ratio: float = -1.0
    new_backfillfull_ratio: float = -1.0
    new_require_min_compat_client: int = UNCHANGED_RELEASE
    new_require_osd_release: int = UNCHANGED_RELEASE
    new_crush_node_flags: dict[int, int] = field(default_factory=dict)
    """0 removes the entry; likewise in the next field."""
    new_device_class_flags: dict[int, int] = field(default_factory=dict)
    change_stretch_mode: bool = False
    """True if the next five fields replace those of the map."""
    new_stretch_bucket_count: int = 0
    new_degraded_stretch_mode: int = 0
    new_recovering_stretch_mode: int = 0
    new_stretch_mode_bucket: int = 0
    stretch_mode_enabled: bool = False
    new_range_blocklist: dict[EntityAddr, UTime] = field(default_factory=dict)
    old_range_blocklist: list[EntityAddr] = field(default_factory=list)
    new_allow_crimson: int = 0
    """1 allows crimson; this cannot be reverted."""

    full_crc: int = field(default=0, compare=False)
    """Crc of the next full map, as the monitor encodes it; not checked here."""
    client_version: int = field(default=_CLIENT_VERSION, compare=False)
    """Version of the client section: the newest that :meth:`encode` writes."""
    osd_version: int = field(default=_OSD_VERSION, compare=False)
    client_tail: bytes = b""
    osd_tail: bytes = b""

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Check the crc of an incremental map and decode it.

        Raises:
            DecodeError: the bytes are too short or malformed, the crc is wrong, there are more than MAX_OSDS, or
                the map is older than Luminous.
        """
        view = memoryview(data)
        client, osd, rest, crc_at = open_sections(view, "incremental OSD map")
        expected, full_crc = rest.u32(), rest.u32()
        behind = view[crc_at + 4 : crc_at + 8]
        check_crc("incremental OSD map", expected, view[:crc_at], behind)
        values = INCREMENTAL_CLIENT_SECTION.decode(client) | INCREMENTAL_OSD_SECTION.decode(osd)
        if values["new_max_osd"] > MAX_OSDS:
            raise DecodeError(f"{values['new_max_osd']} OSDs in the incremental OSD map, the limit is {MAX_OSDS}")
        return cls(
            **values,
            full_crc=full_crc,
            client_version=client.struct_v,
            osd_version=osd.struct_v,
            client_tail=client.rest(),
            osd_tail=osd.rest(),
        )

    def encode(self, features: int = ALL_FEATURES) -> bytes:
        """The encoded incremental, crc included, for a peer with these features."""
        client = newest_version(
            features,
            (Feature.SERVER_REEF, ANY_VERSION),
            (Feature.SERVER_NAUTILUS, 8),
            (Feature.SERVER_MIMIC, 6),
        )
        osd = ANY_VERSION if has_feature(features, Feature.SERVER_NAUTILUS) else _LEGACY_OSD_VERSION
        forms = (
            SectionForm(INCREMENTAL_CLIENT_SECTION, self.client_version, self.client_tail, client),
            SectionForm(INCREMENTAL_OSD_SECTION, self._needed_osd_version(), self.osd_tail, osd),
        )
        names = [item.name for form in forms for item in form.section.fields]
        values = {name: getattr(self, name) for name in names}
        return encode_frame(forms, values, features, self.full_crc.to_bytes(4, "little"))

    def _needed_osd_version(self) -> int:
        """The version of the OSD section that the contents require: later ones are written only if needed."""
        ranges = self.new_range_blocklist or self.old_range_blocklist
        needed = 12 if self.new_allow_crimson else 11 if ranges else 10 if self.change_stretch_mode else 0
        return max(self.osd_version, needed)
