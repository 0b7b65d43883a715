import pytest

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.log import LogEntry, LogPriority

BEFORE_NAUTILUS = CLIENT_FEATURES & ~(Feature.SERVER_NAUTILUS & ~Feature.SERVER_MIMIC)
ENTRY = LogEntry(
    AuthName(EntityType.MON, "a"),
    EntityName(EntityType.MON, 0),
    AddrVec.parse("[v2:10.0.0.1:3300,v1:10.0.0.1:6789]"),
    UTime(1700000000, 5),
    7,
    LogPriority.WARN,
    "slow",
)


def encoded(entry: LogEntry, features: int) -> bytes:
    encoder = Encoder()
    entry.encode(encoder, features)
    return encoder.getvalue()


def test_present_form():
    assert encoded(ENTRY, CLIENT_FEATURES)[:2] == b"\x05\x05"
    assert LogEntry.decode(Decoder(encoded(ENTRY, CLIENT_FEATURES))) == ENTRY


@pytest.mark.parametrize("features", [BEFORE_NAUTILUS, BEFORE_NAUTILUS & ~MSG_ADDR2])
def test_form_before_nautilus_carries_the_legacy_address(features):
    image = encoded(ENTRY, features)
    assert image[:2] == b"\x04\x02"
    back = LogEntry.decode(Decoder(image))
    assert back.addrs == AddrVec((ENTRY.addrs.legacy_addr(),))
    back.addrs = ENTRY.addrs
    assert back == ENTRY


@pytest.mark.parametrize("features", [CLIENT_FEATURES, BEFORE_NAUTILUS])
def test_truncated_body(features):
    body = encoded(ENTRY, features)[6:]
    version = encoded(ENTRY, features)[:2]
    for size in range(len(body)):
        with pytest.raises(DecodeError):
            LogEntry.decode(Decoder(version + size.to_bytes(4, "little") + body[:size]))


def test_older_forms_are_refused():
    with pytest.raises(DecodeError, match="version 3"):
        LogEntry.decode(Decoder(b"\x03\x02\x00\x00\x00\x00"))
