"""Options of pools that have no effect on embedded OSDs: the OSD map keeps them (pg_pool_t.opts), as in Ceph.

They concern scrubs, recovery, compression, checksums and the number of placement groups. Tools and scripts set
them and read them back. Numbers, types and limits are those of Ceph 16.2.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from messenger.denc.codec import Buffer, Decoder, Encoder
from toolkit.embedded.known_options import KIBI, parse_count

Value = str | int | float

_VERSION, _COMPAT = 2, 1
_CHECKSUMS = ("none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8")
"""By their number in a map, which begins with 1."""
_CHECKSUM = "csum_type"
_UNSET = "unset"


class _Option(NamedTuple):
    key: int
    """Number of the option in a map."""
    kind: type[Value]
    choices: tuple[str, ...] = ()
    """What a text may be; anything if empty."""
    least: float = -math.inf
    most: float = math.inf
    takes_units: bool = False
    """True for a number of bytes that may be given as ``1G``."""


OPTIONS: Mapping[str, _Option] = {
    "scrub_min_interval": _Option(0, float),
    "scrub_max_interval": _Option(1, float),
    "deep_scrub_interval": _Option(2, float),
    "recovery_priority": _Option(3, int, least=-10, most=10),
    "recovery_op_priority": _Option(4, int),
    "scrub_priority": _Option(5, int),
    "compression_mode": _Option(6, str, ("none", "passive", "aggressive", "force")),
    "compression_algorithm": _Option(7, str, ("none", "snappy", "zlib", "zstd", "lz4")),
    "compression_required_ratio": _Option(8, float, least=0, most=1),
    "compression_max_blob_size": _Option(9, int),
    "compression_min_blob_size": _Option(10, int),
    _CHECKSUM: _Option(11, str, _CHECKSUMS),
    "csum_max_block": _Option(12, int),
    "csum_min_block": _Option(13, int),
    "fingerprint_algorithm": _Option(14, str),
    "pg_num_min": _Option(15, int, least=0),
    "target_size_bytes": _Option(16, int, takes_units=True),
    "target_size_ratio": _Option(17, float, least=0),
    "pg_autoscale_bias": _Option(18, float, least=0, most=1000),
    "dedup_chunk_algorithm": _Option(21, str),
    "dedup_cdc_chunk_size": _Option(22, int),
    "pg_num_max": _Option(23, int, least=0),
}
"""By name, in the order of their numbers."""
_NAMES = {option.key: name for name, option in OPTIONS.items()}
_KINDS: tuple[type[Value], ...] = (str, int, float)
"""Types of values, by their numbers in a map."""


def parse(name: str, text: str) -> Value | None:
    """Return the value of an option for what a user gave; None if it removes the option.

    Raises:
        ValueError: the option has no such value.
    """
    option = OPTIONS[name]
    if option.kind is str:
        if option.choices and text not in (*option.choices, _UNSET):
            raise ValueError(f"unrecognized {name} '{text}'; known: {', '.join(option.choices)}")
        if text == _UNSET:
            return None
        return _CHECKSUMS.index(text) + 1 if name == _CHECKSUM else text
    try:
        value = _number(option, text)
    except ValueError:
        raise ValueError(f"error parsing the value '{text}' of {name}") from None
    if not option.least <= value <= option.most:
        raise ValueError(f"{name} is from {option.least:g} to {option.most:g}, not {text}")
    return value or None


def _number(option: _Option, text: str) -> int | float:
    if option.takes_units:
        return parse_count(text, KIBI)
    if "_" in text:  # Python's separator of digits
        raise ValueError(text)
    if option.kind is float:
        if not math.isfinite(value := float(text)):  # JSON has no such numbers
            raise ValueError(text)
        return value
    if (number := int(text)) not in range(-(1 << 63), 1 << 63):
        raise ValueError(text)
    return number


def shown(value: Value) -> str:
    """Return a value as Ceph's tools print it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def named(options: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options with the name of the checksum instead of its number."""
    number = options.get(_CHECKSUM)
    return {**options, _CHECKSUM: _CHECKSUMS[number - 1]} if isinstance(number, int) else dict(options)


def read(raw: Buffer) -> dict[str, Value]:
    """Return the options in a map, by name."""
    found: dict[str, Value] = {}
    body = Decoder(raw).versioned(_VERSION)
    for _ in range(body.count(8)):
        name, kind = _NAMES[body.i32()], _KINDS[body.i32()]
        value: Value = body.string() if kind is str else body.i64() if kind is int else body.f64()
        found[name] = value
    return found


def write(options: Mapping[str, Value]) -> bytes:
    """Encode options for a map."""
    encoder = Encoder()
    with encoder.versioned(_VERSION, _COMPAT):
        encoder.u32(len(options))
        for name in sorted(options, key=lambda each: OPTIONS[each].key):
            value = options[name]
            encoder.i32(OPTIONS[name].key)
            encoder.i32(_KINDS.index(type(value)))
            if isinstance(value, str):
                encoder.string(value)
            elif isinstance(value, int):
                encoder.i64(value)
            else:
                encoder.f64(value)
    return encoder.getvalue()
