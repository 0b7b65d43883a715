"""Contents of messages as JSON values."""

import json
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.denc.utime import EPOCH, UTime
from messenger.messages.auth import MAuth
from messenger.messages.config import MKVData
from messenger.messages.message import Message, Payload
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_objects import ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_operations import OpCode, OsdOp
from messenger.messages.osdmap import Osd, OSDMap, OsdState
from messenger.messages.osdmap_incremental import Incremental
from messenger.messages.types import MessageType
from tests.fuzz.seeds import captured_messages
from toolkit.dissect.fields import json_value, message_fields


def _fields(payload: Payload) -> dict[str, object]:
    message = Message.of(payload)
    message.encode_front(ALL_FEATURES)
    return message_fields(message, ALL_FEATURES)


def test_messages_of_real_daemons_become_json() -> None:
    names = set()
    for message in captured_messages():
        fields = message_fields(message, ALL_FEATURES)
        assert "undecoded" not in fields, message
        assert json.loads(json.dumps(fields)) == fields
        names.add(message.type)
    assert len(names) > 30


def test_blobs_show_their_length_only() -> None:
    assert _fields(MAuth(2, b"secret bytes", 1))["auth_payload"] == "12 bytes"
    assert _fields(MKVData(1, "p/", incremental=False, data={"p/key": b"secret"}))["data"] == {"p/key": "6 bytes"}


def _map(encoded: bytes, full: bytes = b"") -> dict[str, object]:
    maps = MOSDMap(UUID(int=1), {7: encoded}, {8: full} if full else {})
    return _fields(maps)


def test_osd_maps_show_what_is_in_them() -> None:
    changes = Incremental(UUID(int=1), 7, new_weight={2: 0x10000}, crush=b"secret?").encode()
    osd = Osd(OsdState.EXISTS | OsdState.UP, 0x10000, AddrVec((EntityAddr.parse("v2:10.0.0.1:6800/7"),)))
    full = OSDMap(UUID(int=1), 8, EPOCH, EPOCH, {}, {1: "p"}, 1, 0, [osd]).encode()
    shown = _map(changes, full)
    assert shown["incremental_maps"]["7"] == {
        "fsid": str(UUID(int=1)),
        "epoch": 7,
        "new_weight": {"2": 0x10000},
        "crush": "7 bytes",
    }
    whole = shown["maps"]["8"]
    assert (whole["epoch"], whole["pool_names"]) == (8, {"1": "p"})
    assert (whole["osds"][0]["state"], whole["osds"][0]["weight"]) == (3, 0x10000)
    assert whole["osds"][0]["client_addrs"] == "v2:10.0.0.1:6800/7"
    assert "pg_temp" not in whole


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_damaged_osd_maps_show_their_bytes(at: int) -> None:
    changes = bytearray(Incremental(UUID(int=1), 7, new_weight={2: 0x10000}).encode())
    changes[at] ^= 0x40
    shown = _map(bytes(changes))["incremental_maps"]["7"]
    assert isinstance(shown, str)
    assert shown.startswith(changes.hex()[:20])
    assert _map(bytes(changes[:at]))["incremental_maps"]["7"] == changes[:at].hex()


def test_of_unknown_types_the_front_is_shown_up_to_a_length() -> None:
    fields = message_fields(Message(65000, b"\xab" * 1000), ALL_FEATURES)
    assert fields == {
        "front": "ab" * 256,
        "front_bytes": 1000,
        "undecoded": "the contents of this type are not read",
    }


def test_undecodable_front_has_a_reason() -> None:
    fields = message_fields(Message(MessageType.MON_GET_VERSION, b"\1\2"), ALL_FEATURES)
    assert (fields["front"], fields["front_bytes"]) == ("0102", 2)
    assert fields["undecoded"]


@dataclass
class _Part:
    number: int
    peers: list[EntityAddr] = field(default_factory=list)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (EntityType.OSD, "osd"),
        (MessageType.PING, "PING"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (b"\1\2", "0102"),
        (b"\1" * 300, "01" * 256 + "... (300 bytes)"),
        ("caf\udce9", "caf\\xe9"),
        (UTime(1_700_000_000, 5000), "2023-11-14T22:13:20.000005+0000"),
        (AuthName(EntityType.CLIENT, "admin"), "client.admin"),
        (CryptoKey(1, b"sixteen bytes!!!"), "16 bytes"),
        ({EntityType.MON: 1}, {"mon": 1}),
        ({(1, 2): b"\3"}, [{"key": [1, 2], "value": "03"}]),
        (_Part(1, [EntityAddr.parse("v2:10.0.0.1:3300/7")]), {"number": 1, "peers": ["v2:10.0.0.1:3300/7"]}),
    ],
)
def test_values(value: object, shown: object) -> None:
    assert json_value(value) == shown


def test_flags_have_the_names_of_their_bits_beside_them() -> None:
    request = MOSDOp(
        ShardedPgId(PgId(1, 0)), 1, 5, 0x24, ObjectLocator(1), "o", [OsdOp(OpCode.CREATE, flags=0x101)]
    )
    message = Message.of(request)
    message.encode_front(ALL_FEATURES)
    shown = message_fields(message, ALL_FEATURES)
    (operation,) = shown["ops"]
    assert (shown["flags"], shown["flags_names"]) == (0x24, ["ONDISK", "WRITE"])
    assert (operation["flags"], operation["flags_names"]) == (0x101, ["EXCL", "0x100"])
