"""Front segments of messages between real daemons and clients."""

import lzma
from pathlib import Path

from messenger.denc.features import CLIENT_FEATURES
from messenger.messages.message import Message, Payload
from messenger.messages.registry import decode_payload

_DATA = Path(__file__).parents[1] / "messenger" / "messages" / "data"

Row = tuple[int, int, int, bytes]


def captured() -> list[Row]:
    """Type, version, compat version and front of each."""
    lines = (_DATA / "fronts.txt").read_text().splitlines()
    lines += lzma.decompress((_DATA / "fronts-large.txt.xz").read_bytes()).decode().splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return [(int(k), int(v), int(c), b"" if f == "-" else bytes.fromhex(f)) for k, v, c, f in rows]


def read(row: Row) -> Payload:
    kind, version, compat_version, front = row
    payload = decode_payload(
        Message(kind, memoryview(front), version=version, compat_version=compat_version), CLIENT_FEATURES
    )
    assert payload is not None
    return payload


def captured_payloads(payload_type: type) -> list[Payload]:
    """Return the payloads of the captured messages of one type, in the order of the files."""
    return [read(row) for row in captured() if row[0] == payload_type.TYPE]
