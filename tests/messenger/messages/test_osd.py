from pathlib import Path
from uuid import UUID

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import CLIENT_FEATURES
from messenger.messages.osd import MOSDMap
from messenger.messages.osdmap import OSDMap
from messenger.messages.osdmap_incremental import Incremental

DATA = Path(__file__).parent / "data"


def test_carries_encoded_maps_by_epoch():
    full = (DATA / "osdmap-simple.bin").read_bytes()
    change = (DATA / "history" / "incremental-2.bin").read_bytes()
    encoder = Encoder()
    MOSDMap(UUID(int=5), {2: change}, {1: full}, oldest=1, newest=2).encode(encoder, CLIENT_FEATURES)
    payload = MOSDMap.decode(Decoder(encoder.getvalue()), 4, CLIENT_FEATURES)
    assert OSDMap.decode(payload.maps[1]).pool_names == {1: "rbd"}
    assert Incremental.decode(payload.incremental_maps[2]).epoch == 2


def test_version_3_ends_before_the_last_field():
    front = bytes(16) + bytes(8) + b"\x01\0\0\0" + b"\x09\0\0\0"
    assert MOSDMap.decode(Decoder(front), 3, CLIENT_FEATURES) == MOSDMap(UUID(int=0), {}, {}, 1, 9)
