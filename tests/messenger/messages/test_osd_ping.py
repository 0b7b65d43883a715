from dataclasses import replace

import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES
from messenger.errors import DecodeError
from messenger.messages.osd_ping import MOSDPing, PingOp, SignedSpan, pad_bytes_for
from tests.support.fronts import captured_payloads

(REAL,) = captured_payloads(MOSDPing)


def encoded(ping: MOSDPing) -> bytes:
    encoder = Encoder()
    ping.encode(encoder, ALL_FEATURES)
    return encoder.getvalue()


def test_a_real_ping_is_padded_to_the_default_size():
    """The padding depends on the bytes before its length; later fields come on top (docs/protocol.md §6.4)."""
    assert REAL.op == PingOp.PING
    assert REAL.pad_bytes == pad_bytes_for(2000) == MOSDPing(REAL.fsid, 1, 4, REAL.ping_stamp).pad_bytes
    assert len(encoded(REAL)) == 2000 + 4 + 4 + 8 + 8 + 1


@pytest.mark.parametrize(("min_size_bytes", "pad_bytes"), [(0, 0), (29, 0), (30, 1), (9000, 8971)])
def test_pad_bytes(min_size_bytes, pad_bytes):
    assert pad_bytes_for(min_size_bytes) == pad_bytes


def test_version_4_of_nautilus_has_nothing_but_the_padding():
    ping = MOSDPing(REAL.fsid, 7, PingOp.PING_REPLY, REAL.ping_stamp, pad_bytes=3)
    front = encoded(ping)[: 29 + 4] + bytes(3)
    assert MOSDPing.decode(Decoder(front), 4, ALL_FEATURES) == ping
    with pytest.raises(DecodeError):
        MOSDPing.decode(Decoder(front[:-1]), 4, ALL_FEATURES)


def test_spans_may_be_negative():
    ping = replace(REAL, pad_bytes=0, delta_ub=SignedSpan(-1, -5))
    assert encoded(ping).endswith(bytes.fromhex("01" + "ffffffff" + "fbffffff"))
    assert MOSDPing.decode(Decoder(encoded(ping)), 5, ALL_FEATURES) == ping


def test_padding_that_is_not_there_is_refused():
    front = encoded(replace(REAL, pad_bytes=0))
    lying = front[:29] + b"\xff\xff\xff\xff" + front[33:]
    with pytest.raises(DecodeError, match="4294967295 bytes"):
        MOSDPing.decode(Decoder(lying), 5, ALL_FEATURES)


def test_older_pings_are_refused():
    with pytest.raises(DecodeError, match="MOSDPing of version 3, at least 4"):
        MOSDPing.decode(Decoder(bytes(100)), 3, ALL_FEATURES)
