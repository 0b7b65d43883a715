"""Lengths on the wire of messages, acks and keepalives, by their content (docs/protocol.md §3.7, §4.5)."""

from functools import lru_cache
from typing import Any

from messenger.denc.features import Feature
from toolkit.checks.audit.talk import number
from toolkit.checks.records import MESSAGE_TAGS
from toolkit.checks.wires import LinkLog

_HEADER_BYTES = 41
_PREAMBLE_BYTES = 32
_CRC_BYTES = 4
_CRC_EPILOGUE_BYTES = 13
_REV0_CRC_EPILOGUE_BYTES = 17
_HEAD_BYTES = 96
"""Preamble, inline part and tag of a sealed frame."""
_SEALED_EPILOGUE_BYTES = 32
"""Epilogue and tag."""
_V2_SMALL_BYTES = {"ACK": 8, "KEEPALIVE2": 8, "KEEPALIVE2_ACK": 8}
_V1_SMALL_BYTES = {"ACK": 9, "KEEPALIVE": 1, "KEEPALIVE2": 9, "KEEPALIVE2_ACK": 9, "CLOSE": 1}
_V1_MESSAGE_BYTES = (1 + 53 + 21, 1 + 53 + 13)
"""Tag, header and footer, with and without a signature."""
_OLD_HEADER_MORE_BYTES = 281
"""Additional bytes of the header without NOSRCADDR: two names with addresses in place of one name."""
JUDGED_TAGS = frozenset({*MESSAGE_TAGS, *_V1_SMALL_BYTES})
"""Frames whose length is known."""


def framing_of(link: LinkLog) -> str:
    """Return the framing of a link that has authenticated.

    "v1", or "v1-old" with the header of peers without NOSRCADDR; mode and revision of v2, as "secure1".
    """
    assert link.auth is not None
    if any(record.fields["tag"] == "IDENTIFY" for _, record in link.talk[:4]):
        announced = [number(record.fields["fields"], "features") for _, record in link.talk]
        return "v1-old" if any(not mask & Feature.NOSRCADDR for mask in announced if mask is not None) else "v1"
    auth = link.auth[1].fields
    return f"{auth['mode']}{auth['revision']}"


def wrong_length(framing: str, frame: dict[str, Any]) -> int | None:
    """Return the length in bytes that a frame should have, if it has another; else None."""
    fields = frame["fields"]
    due = _lengths(framing, frame["tag"], fields.get("front"), fields.get("middle"), fields.get("data"))
    return due[0] if due and frame["length"] not in due else None


@lru_cache(maxsize=4096)
def _lengths(framing: str, tag: str, *sizes: object) -> tuple[int, ...]:
    """Return the lengths that a frame may have; empty if they are unknown."""
    parts = [size for size in sizes if type(size) is int]
    if tag in MESSAGE_TAGS and len(parts) != len(sizes):
        return ()
    if framing in {"v1", "v1-old"}:
        small = _V1_SMALL_BYTES.get(tag)
        if tag in MESSAGE_TAGS:
            more = _OLD_HEADER_MORE_BYTES if framing == "v1-old" else 0
            return tuple(sum(parts) + around + more for around in _V1_MESSAGE_BYTES)
        return () if small is None else (small,)
    first = _HEADER_BYTES if tag in MESSAGE_TAGS else _V2_SMALL_BYTES.get(tag)
    return () if first is None else (_v2_bytes(framing, first, parts),)


def _v2_bytes(framing: str, first: int, rest: list[int]) -> int:
    """Return the length of a v2 frame with a first segment of ``first`` bytes and segments of ``rest`` bytes."""
    sealed = sum(map(_padded, rest))
    if framing == "secure0":
        return _PREAMBLE_BYTES + _padded(first) + sealed + _SEALED_EPILOGUE_BYTES
    if framing == "secure1":
        return _HEAD_BYTES + (sealed + _SEALED_EPILOGUE_BYTES if sealed else 0)
    if framing == "crc0":
        return _PREAMBLE_BYTES + first + sum(rest) + _REV0_CRC_EPILOGUE_BYTES
    return _PREAMBLE_BYTES + first + _CRC_BYTES + sum(rest) + (_CRC_EPILOGUE_BYTES if any(rest) else 0)


def _padded(size: int) -> int:
    return (size + 15) & ~15
