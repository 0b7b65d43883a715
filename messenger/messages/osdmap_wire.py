"""Encoding of full and incremental OSD maps: sections, frame and crc (docs/protocol.md §6.6).

Both kinds of maps share a frame: a section for clients, a section for OSDs, a crc. Each section is a table here.
The properties of OSDs are spread over several lists of equal length, which :mod:`.osdmap` combines.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from messenger.crc import crc32c
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.denc.features import Feature, has_feature
from messenger.denc.layout import I32, I64, U8, U32, U64, Since
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.layout import (
    ANY_VERSION,
    F32,
    Addrs,
    LayoutField,
    before_nautilus,
    codec_of,
    since_of,
)
from messenger.messages.osd_info import OsdInfo, OsdXInfo
from messenger.messages.pg import PgId
from messenger.messages.pool import Intervals, Pool

_OUTER_VERSION = 8
_OUTER_COMPAT = 7
_CRC_SIZE = 4
_CRC_SEED = 0xFFFFFFFF
_ENVELOPE_HEAD_SIZE = 6
_OLDEST_CLIENT_VERSION = 5
_STRETCH_VERSION = 10

_PgLists = dict[PgId, list[I32]]
_PgPairs = dict[PgId, list[tuple[I32, I32]]]
_Profiles = dict[str, dict[str, str]]
_Snaps = dict[I64, Intervals]
_Stretch = Since(_STRETCH_VERSION)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a map: its fields in wire order."""

    addrvec_version: int
    """The first version in which OSDs have address vectors."""
    fields: tuple[LayoutField, ...]

    @classmethod
    def of(cls, addrvec_version: int, **types: Any) -> "Section":  # noqa: ANN401 - types
        """Create a section from types by field name."""
        fields = (LayoutField(name, codec_of(hint), since_of(hint)) for name, hint in types.items())
        return cls(addrvec_version, tuple(fields))

    def encode(self, encoder: Encoder, version: int, values: dict[str, Any], tail: bytes, features: int) -> None:
        """Append the envelope of ``version`` with the values by name, then ``tail``."""
        if version < self.addrvec_version:
            features = before_nautilus(features)
        with encoder.versioned(version, 1):
            for item in self.fields:
                if version >= item.since:
                    item.codec.encode(encoder, values[item.name], features)
            encoder.raw(tail)

    def decode(self, body: Decoder, features: int = 0) -> dict[str, Any]:
        """The values in the body of an envelope, by name."""
        return {
            item.name: item.codec.decode(body, features) for item in self.fields if body.struct_v >= item.since
        }


CLIENT_SECTION = Section.of(
    8,
    fsid=UUID,
    epoch=U32,
    created=UTime,
    modified=UTime,
    pools=dict[I64, Pool],
    pool_names=dict[I64, str],
    pool_max=I32,
    flags=U32,
    max_osd=I32,
    osd_state=list[U32],
    osd_weight=list[U32],
    client_addrs=list[Addrs],
    pg_temp=_PgLists,
    primary_temp=dict[PgId, I32],
    osd_primary_affinity=list[U32],
    crush=bytes,
    erasure_code_profiles=_Profiles,
    pg_upmap=_PgLists,
    pg_upmap_items=_PgPairs,
    crush_version=Annotated[I32, Since(6)],
    new_removed_snaps=Annotated[_Snaps, Since(7)],
    new_purged_snaps=Annotated[_Snaps, Since(7)],
    last_up_change=Annotated[UTime, Since(9)],
    last_in_change=Annotated[UTime, Since(9)],
    pg_upmap_primaries=Annotated[dict[PgId, I32], Since(10)],
)

OSD_SECTION = Section.of(
    7,
    hb_back_addrs=list[Addrs],
    osd_info=list[OsdInfo],
    blocklist=dict[EntityAddr, UTime],
    cluster_addrs=list[Addrs],
    cluster_snapshot_epoch=U32,
    cluster_snapshot=str,
    osd_uuid=list[UUID],
    osd_xinfo=list[OsdXInfo],
    hb_front_addrs=list[Addrs],
    nearfull_ratio=Annotated[F32, Since(2)],
    full_ratio=Annotated[F32, Since(2)],
    backfillfull_ratio=Annotated[F32, Since(2)],
    require_min_compat_client=Annotated[U8, Since(5)],
    require_osd_release=Annotated[U8, Since(5)],
    removed_snaps_queue=Annotated[_Snaps, Since(6)],
    crush_node_flags=Annotated[dict[I32, U32], Since(8)],
    device_class_flags=Annotated[dict[I32, U32], Since(9)],
    stretch_mode_enabled=Annotated[bool, _Stretch],
    stretch_bucket_count=Annotated[U32, _Stretch],
    degraded_stretch_mode=Annotated[U32, _Stretch],
    recovering_stretch_mode=Annotated[U32, _Stretch],
    stretch_mode_bucket=Annotated[I32, _Stretch],
    range_blocklist=Annotated[dict[EntityAddr, UTime], Since(11)],
    allow_crimson=Annotated[bool, Since(12)],
)

INCREMENTAL_CLIENT_SECTION = Section.of(
    7,
    fsid=UUID,
    epoch=U32,
    modified=UTime,
    new_pool_max=I64,
    new_flags=I32,
    fullmap=bytes,
    crush=bytes,
    new_max_osd=I32,
    new_pools=dict[I64, Pool],
    new_pool_names=dict[I64, str],
    old_pools=list[I64],
    new_up_client=dict[I32, Addrs],
    new_state=dict[I32, U32],
    new_weight=dict[I32, U32],
    new_pg_temp=_PgLists,
    new_primary_temp=dict[PgId, I32],
    new_primary_affinity=dict[I32, U32],
    new_erasure_code_profiles=_Profiles,
    old_erasure_code_profiles=list[str],
    new_pg_upmap=_PgLists,
    old_pg_upmap=set[PgId],
    new_pg_upmap_items=_PgPairs,
    old_pg_upmap_items=set[PgId],
    new_removed_snaps=Annotated[_Snaps, Since(6)],
    new_purged_snaps=Annotated[_Snaps, Since(6)],
    new_last_up_change=Annotated[UTime, Since(8)],
    new_last_in_change=Annotated[UTime, Since(8)],
    new_pg_upmap_primaries=Annotated[dict[PgId, I32], Since(9)],
    old_pg_upmap_primaries=Annotated[set[PgId], Since(9)],
)

INCREMENTAL_OSD_SECTION = Section.of(
    7,
    new_hb_back_up=dict[I32, Addrs],
    new_up_thru=dict[I32, U32],
    new_last_clean_interval=dict[I32, tuple[U32, U32]],
    new_lost=dict[I32, U32],
    new_blocklist=dict[EntityAddr, UTime],
    old_blocklist=list[EntityAddr],
    new_up_cluster=dict[I32, Addrs],
    cluster_snapshot=str,
    new_uuid=dict[I32, UUID],
    new_xinfo=dict[I32, OsdXInfo],
    new_hb_front_up=dict[I32, Addrs],
    encode_features=U64,
    new_nearfull_ratio=Annotated[F32, Since(3)],
    new_full_ratio=Annotated[F32, Since(3)],
    new_backfillfull_ratio=Annotated[F32, Since(3)],
    new_require_min_compat_client=Annotated[U8, Since(6)],
    new_require_osd_release=Annotated[U8, Since(6)],
    new_crush_node_flags=Annotated[dict[I32, U32], Since(8)],
    new_device_class_flags=Annotated[dict[I32, U32], Since(9)],
    change_stretch_mode=Annotated[bool, _Stretch],
    new_stretch_bucket_count=Annotated[U32, _Stretch],
    new_degraded_stretch_mode=Annotated[U32, _Stretch],
    new_recovering_stretch_mode=Annotated[U32, _Stretch],
    new_stretch_mode_bucket=Annotated[I32, _Stretch],
    stretch_mode_enabled=Annotated[bool, _Stretch],
    new_range_blocklist=Annotated[dict[EntityAddr, UTime], Since(11)],
    old_range_blocklist=Annotated[list[EntityAddr], Since(11)],
    new_allow_crimson=Annotated[U8, Since(12)],
)


def newest_version(features: int, *known: tuple[Feature, int]) -> int:
    """The version for a peer with these features.

    Args:
        features: features negotiated with the peer.
        known: features and the versions that they imply, newest first.
    """
    versions = (version for feature, version in known if has_feature(features, feature))
    return next(versions, _OLDEST_CLIENT_VERSION)


@dataclass(frozen=True, slots=True)
class SectionForm:
    """The form in which one section of a map is written."""

    section: Section
    version: int
    """Version of the section in the map itself."""
    tail: bytes
    """Bytes after the supported fields of that version."""
    newest: int
    """The newest version that the peer supports."""


def encode_frame(
    forms: Iterable[SectionForm], values: dict[str, Any], features: int, behind_crc: bytes = b""
) -> bytes:
    """Encode the frame of a full or incremental map with both sections.

    Args:
        forms: forms of the two sections.
        values: values of all their fields, by name.
        features: features negotiated with the peer.
        behind_crc: bytes after the crc, which the crc covers.
    """
    encoder = Encoder()
    with encoder.versioned(_OUTER_VERSION, _OUTER_COMPAT):
        for form in forms:
            known = form.version <= form.newest
            version, tail = (form.version, form.tail) if known else (form.newest, b"")
            form.section.encode(encoder, version, values, tail, features)
        encoder.raw(bytes(_CRC_SIZE) + behind_crc)
    image = encoder.getvalue()
    crc_at = len(image) - _CRC_SIZE - len(behind_crc)
    crc = _map_crc((image[:crc_at], behind_crc))
    return image[:crc_at] + crc.to_bytes(_CRC_SIZE, "little") + behind_crc


def open_sections(data: Buffer, what: str) -> tuple[Decoder, Decoder, Decoder, int]:
    """Open the frame of a full or incremental map: client section, OSD section, crc.

    Returns:
        The two sections, the rest of the frame from the crc on, and the offset of the crc in ``data``.

    Raises:
        DecodeError: the bytes are too short, or the map is older than what this package supports.
    """
    frame = Decoder(data).versioned(_OUTER_VERSION)
    if frame.struct_v < _OUTER_VERSION:
        raise DecodeError(f"{what} of version {frame.struct_v}, at least {_OUTER_VERSION} is known")
    size = frame.remaining
    client = frame.versioned(ANY_VERSION)
    if client.struct_v < _OLDEST_CLIENT_VERSION:
        raise DecodeError(f"{what} with client section of version {client.struct_v}, older than Luminous")
    osd = frame.versioned(ANY_VERSION)
    return client, osd, frame, _ENVELOPE_HEAD_SIZE + size - frame.remaining


def _map_crc(parts: Iterable[Buffer]) -> int:
    crc = _CRC_SEED
    for part in parts:
        crc = crc32c(part, crc)
    return crc


def check_crc(what: str, expected: int, *parts: Buffer) -> None:
    """Compare a map's crc with that of the parts it covers.

    Raises:
        DecodeError: they differ.
    """
    crc = _map_crc(parts)
    if crc != expected:
        raise DecodeError(f"crc of the {what} is 0x{crc:08x}, it claims 0x{expected:08x}")
