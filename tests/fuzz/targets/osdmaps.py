"""OSD maps and what changes them: with the right crcs, which fuzzing would not find (docs/protocol.md §6.6).

An input is a byte of options and two counted maps (u16): a full one and an incremental one. Option bit 0 leaves
the crcs as they are; bit 1 makes the incremental one follow the full one.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES
from messenger.errors import DecodeError, LocalError
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental, open_sections
from tests.fuzz.seeds import captured_files
from tests.fuzz.target import KIB, Cursor, Target, require_stable
from tests.fuzz.targets.structures import FEATURES

T = TypeVar("T")

_CRC_SIZE = 4
_CRC_SEED = 0xFFFFFFFF


def with_crc(raw: bytes, what: str, skipped: int) -> bytes:
    """A map with its crc put right, as far as it can be found; ``skipped`` bytes behind it are covered too."""
    try:
        _, _, _, crc_at = open_sections(raw, what)
    except DecodeError:
        return raw
    behind = raw[crc_at + _CRC_SIZE : crc_at + _CRC_SIZE + skipped]
    crc = crc32c(behind, crc32c(raw[:crc_at], _CRC_SEED))
    return raw[:crc_at] + crc.to_bytes(_CRC_SIZE, "little") + raw[crc_at + _CRC_SIZE :]


def _decoded(decode: Callable[[Buffer], T], raw: bytes) -> T | None:
    try:
        return decode(raw)
    except DecodeError:
        return None


def _check_encoding(
    value: OSDMap | Incremental, masks: tuple[int, ...] = (FEATURES[0], FEATURES[2], FEATURES[-1])
) -> None:
    for features in masks:
        require_stable(
            value,
            lambda what, features=features: what.encode(features),
            type(value).decode,
            lossy=True,  # sections of old versions have addresses without types
        )


def run(data: bytes) -> None:
    """Read both, write both, and apply one to the other."""
    cursor = Cursor(data)
    options, raw_full, raw_incremental = cursor.number(), cursor.counted(2), cursor.counted(2)
    if not options & 1:
        raw_full = with_crc(raw_full, "OSD map", 0)
        raw_incremental = with_crc(raw_incremental, "incremental OSD map", _CRC_SIZE)
    full, incremental = _decoded(OSDMap.decode, raw_full), _decoded(Incremental.decode, raw_incremental)
    for value in (full, incremental):
        if value is not None:
            _check_encoding(value)
    if full is None or incremental is None:
        return
    if options & 2:
        full.fsid, full.epoch = incremental.fsid, incremental.epoch - 1
    try:
        after = full.apply(incremental)
    except DecodeError:
        return
    except LocalError:
        assert not options & 2
        return
    _check_encoding(after, (ALL_FEATURES,))


def seeds() -> Iterator[bytes]:
    """Captured maps, each alone, and some of them one after the other."""

    def counted(raw: bytes) -> bytes:
        return len(raw).to_bytes(2, "little") + raw

    fulls = [raw for raw in captured_files("*full*.bin") + captured_files("osdmap*.bin") if len(raw) < 4 * KIB]
    incrementals = captured_files("incremental*.bin")
    for raw in fulls:
        yield b"\1" + counted(raw)
    for raw in incrementals[::3]:
        yield b"\0\0\0" + counted(raw)
        yield b"\2" + counted(fulls[-1]) + counted(raw)


TARGETS = (
    Target(
        name="osdmaps",
        run=run,
        seeds=seeds,
        allowance_bytes=8 * 1024 * KIB,
        coarse=True,
        mutations=150,
        max_bytes=4 * KIB,
    ),
)
