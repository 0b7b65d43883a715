"""Fronts written out by hand from the tables of docs/protocol.md §6.2 and §6.3, where no real ones were taken."""

from uuid import UUID

import pytest

from messenger.cephx.keys import CryptoKey
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.denc.utime import UTime
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.command import MCommandReply
from messenger.messages.config import MGetConfig, MKVData
from messenger.messages.mgr import MMgrClose, MMgrOpen, MMgrReport, PerfCounterType, ServiceDaemon
from messenger.messages.mon import MMonGetOSDMap, MMonSubscribeAck
from messenger.messages.mon_peer import MMonPing, MMonUsedPendingKeys, MRoute
from messenger.messages.pools import MPoolOp, MPoolOpReply, MStatfs

FSID = UUID("6fb3a0c4-7d11-4d10-9b76-1c0b6c9d2e55")
PX = "0000000000000000" + "ffff" + "0000000000000000"
PX_7 = "0700000000000000" + "ffff" + "0000000000000000"
FSID_BYTES = FSID.bytes.hex()


def s(text: str) -> str:
    """A string on the wire."""
    return len(text).to_bytes(4, "little").hex() + text.encode().hex()


FRONTS = [
    (MAuth(2, b"\1\2", 5), PX + "02000000" + "02000000" + "0102" + "05000000"),
    (MAuth(0, b"", map_version=7), PX_7 + "00000000" + "00000000" + "00000000"),
    (
        MAuthReply(2, -13, 4112, b"\7", "no"),
        "02000000" + "f3ffffff" + "1010000000000000" + "01000000" + "07" + s("no"),
    ),
    (MMonGetOSDMap(1, 2, 3, 4), PX + "01000000" + "02000000" + "03000000" + "04000000"),
    (MMonSubscribeAck(300, FSID), "2c010000" + FSID_BYTES),
    (MStatfs(FSID, 3), PX + FSID_BYTES + "01" + "0300000000000000"),
    (
        MPoolOp(FSID, 1, 0x22, snapid=9, name="p", crush_rule=-1),
        PX + FSID_BYTES + "01000000" + "22000000" + "00" * 8 + "0900000000000000" + s("p") + "00" + "ffff",
    ),
    (
        MPoolOpReply(FSID, 0xFFFFFFFE, 9, b"\5"),
        PX + FSID_BYTES + "feffffff" + "09000000" + "01" + "01000000" + "05",
    ),
    (MGetConfig(AuthName(EntityType.OSD, "3"), "h", "ssd"), "04000000" + s("3") + s("h") + s("ssd")),
    (
        MKVData(3, "p/", True, {"p/a": b"\1", "p/b": None}),
        "0300000000000000" + s("p/") + "01" + "02000000" + s("p/a") + "01" + "01000000" + "01" + s("p/b") + "00",
    ),
    (MMonPing(2, UTime(1, 2), b"t", b"\0\0"), "02" + "0100000002000000" + "01000000" + "74" + "02000000" + "0000"),
    (
        MMonUsedPendingKeys({AuthName(EntityType.OSD, "0"): CryptoKey(1, bytes(16), UTime(5))}),
        PX + "01000000" + "04000000" + s("0") + "0100" + "0500000000000000" + "1000" + "00" * 16,
    ),
    (
        MRoute(5, send_osdmap_first=6),
        "0500000000000000" + "00" * 9 + "01010128000000" + "00" * 8 + "1c000000" + "00" * 28 + "00" + "06000000",
    ),
    (MCommandReply(-22, "bad"), "eaffffff" + s("bad")),
    (MMgrOpen("0"), s("0") + s("") + "00" + "00000000" * 2),
    (
        MMgrOpen("gw", "rgw", ServiceDaemon({"a": "b"}), b"\1"),
        s("gw") + s("rgw") + "01" + "01000000" + s("a") + s("b") + "00000000" + "01000000" + "01" + "00000000",
    ),
    (
        MMgrReport("0", [PerfCounterType("p", "d", "n", 2, 10, 1)], b"\7", ["q"]),
        s("0")
        + ("01000000" + "0301" + "12000000" + s("p") + s("d") + s("n") + "020a01")
        + ("01000000" + "07" + "01000000" + s("q") + s("") + "00")
        + ("00000000" + "00000000" + "00000000" + "00" + "00"),
    ),
    (MMgrClose("0", "rgw"), s("0") + s("rgw")),
]


@pytest.mark.parametrize(("payload", "front"), FRONTS, ids=lambda value: type(value).__name__)
def test_fronts(payload, front):
    encoder = Encoder()
    payload.encode(encoder, ALL_FEATURES)
    image = encoder.getvalue()
    assert image.hex() == front
    assert type(payload).decode(Decoder(image), payload.VERSION, ALL_FEATURES) == payload
