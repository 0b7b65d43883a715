"""From one epoch of the OSD map to the next, and the frame both kinds of maps share (protocol.md §6.6)."""

from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from messenger.crc import crc32c
from messenger.denc.address import AddrVec
from messenger.denc.codec import Buffer, Decoder
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.fields import decode_uuid
from messenger.messages.osdmap_pgs import PgChanges, decode_osds, decode_primaries, skip_profiles
from messenger.messages.pool import Pool

MAX_OSDS = 100_000
"""More OSDs than this are not believed; monitors themselves stop at ``mon_max_osd``, 10,000 by default."""
SHORTEST_POOL_ENTRY = 14
SHORTEST_POOL_NAME_ENTRY = 12

_OUTER_VERSION = 8
_ENVELOPE_HEAD_SIZE = 6
_CRC_SIZE = 4
_CRC_SEED = 0xFFFFFFFF
_ANY_VERSION = 255
_OLDEST_CLIENT_VERSION = 5


def open_sections(data: Buffer, what: str) -> tuple[Decoder, Decoder, int]:
    """Open the frame of a full or incremental map: client section, OSD section, crc.

    Returns:
        The client section, the rest of the frame from the crc on, and the offset of the crc in ``data``.

    Raises:
        DecodeError: cut short, or older than what this package reads.
    """
    frame = Decoder(data).versioned(_OUTER_VERSION)
    if frame.struct_v < _OUTER_VERSION:
        raise DecodeError(f"{what} of version {frame.struct_v}, at least {_OUTER_VERSION} is known")
    size = frame.remaining
    client = frame.versioned(_ANY_VERSION)
    if client.struct_v < _OLDEST_CLIENT_VERSION:
        raise DecodeError(f"{what} with client section of version {client.struct_v}, older than Luminous")
    frame.versioned(_ANY_VERSION)
    return client, frame, _ENVELOPE_HEAD_SIZE + size - frame.remaining


def check_crc(what: str, expected: int, *parts: Buffer) -> None:
    """Compare a map's crc with that of the parts it covers.

    Raises:
        DecodeError: they differ.
    """
    crc = _CRC_SEED
    for part in parts:
        crc = crc32c(part, crc)
    if crc != expected:
        raise DecodeError(f"crc of the {what} is 0x{crc:08x}, it claims 0x{expected:08x}")


@dataclass(slots=True)
class Incremental:
    """What changed from ``epoch - 1`` to ``epoch``. -1 and None mean unchanged."""

    fsid: UUID
    epoch: int
    modified: UTime
    new_pool_max: int
    new_flags: int
    fullmap: bytes
    """If not empty, a complete encoded map that replaces the old one; the fields below are then unused."""
    new_max_osd: int
    new_pools: dict[int, Pool]
    new_pool_names: dict[int, str]
    old_pools: list[int]
    new_up_client: dict[int, AddrVec]
    """OSDs that came up, with their client addresses."""
    new_state: dict[int, int]
    """Bits to flip in the states of OSDs; 0 stands for UP."""
    new_weight: dict[int, int]
    """16.16 fixed point."""
    crush: bytes = b""
    """If not empty, the encoded CRUSH map that replaces the old one."""
    new_primary_affinity: dict[int, int] = field(default_factory=dict)
    """16.16 fixed point."""
    pg_changes: PgChanges = field(default_factory=PgChanges)

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Read one incremental map; what is not kept here is skipped, after its crc was checked.

        Raises:
            DecodeError: cut short, malformed, crc mismatch, more than MAX_OSDS, or older than Luminous.
        """
        view = memoryview(data)
        client, tail, crc_at = open_sections(view, "incremental OSD map")
        expected = tail.u32()
        tail.skip(_CRC_SIZE)  # full_crc, that of the resulting map
        behind = view[crc_at + _CRC_SIZE : crc_at + 2 * _CRC_SIZE]
        check_crc("incremental OSD map", expected, view[:crc_at], behind)
        return cls._decode_client(client)

    @classmethod
    def _decode_client(cls, body: Decoder) -> Self:
        fsid, epoch, modified = decode_uuid(body), body.u32(), UTime.decode(body)
        new_pool_max, new_flags, fullmap, crush = body.i64(), body.i32(), body.blob(), body.blob()
        new_max_osd = body.i32()
        if new_max_osd > MAX_OSDS:
            raise DecodeError(f"{new_max_osd} OSDs in the incremental OSD map, the limit is {MAX_OSDS}")
        incremental = cls(
            fsid=fsid,
            epoch=epoch,
            modified=modified,
            new_pool_max=new_pool_max,
            new_flags=new_flags,
            fullmap=fullmap,
            new_max_osd=new_max_osd,
            new_pools=body.mapping(body.i64, lambda: Pool.decode(body), SHORTEST_POOL_ENTRY),
            new_pool_names=body.mapping(body.i64, body.string, SHORTEST_POOL_NAME_ENTRY),
            old_pools=body.sequence(body.i64, 8),
            new_up_client=body.mapping(body.i32, lambda: AddrVec.decode(body), 9),
            new_state=body.mapping(body.i32, body.u32, 8),
            new_weight=body.mapping(body.i32, body.u32, 8),
            crush=crush,
        )
        pg_temp, primary_temp = decode_osds(body), decode_primaries(body)
        incremental.new_primary_affinity = body.mapping(body.i32, body.u32, 8)
        skip_profiles(body)
        body.sequence(body.string, 4)  # old_erasure_code_profiles
        incremental.pg_changes = PgChanges.decode(body, pg_temp, primary_temp)
        return incremental
