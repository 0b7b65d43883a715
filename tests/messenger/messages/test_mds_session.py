"""Reconnection of a client as it was sent, and lengths that do not fit into a front."""

import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import CLIENT_FEATURES
from messenger.errors import DecodeError
from messenger.messages.mds_session import MClientReconnect, MClientSnap, ReconnectState, SnapHead

ROOT = 1
DIRECTORY = 0x10000000001
BELOW = 0x10000000003
RECONNECT = bytes.fromhex(
    "0300000001000000000000000201300000000000000001000000000000000000000055000000010000000000000001000000000000"
    "0000000000000000000000000001000000000100000201300000000000000"
    "02d0000000000000000000000550000000100000000010000010000000001000000000000000000000000000003000000000100000"
    "20130000000000000002c000000000000000000000055000000030000000001000003000000000100000000000000000000000000"
    "000300000001011800000001000000000100000300000000000000010000000000000001011800000001000000000000000100000"
    "000000000000000000000000001011800000003000000000100000300000000000000010000000001000000"
)
"""Data segment of the MClientReconnect, version 5, that a client of 16.2.15 sent."""


def test_a_real_client_reconnects_with_its_directories():
    decoder = Decoder(RECONNECT)
    state = ReconnectState.decode(decoder, MClientReconnect.VERSION, CLIENT_FEATURES)
    assert not decoder.remaining
    assert {ino: (cap.cap_id, cap.path_base) for ino, cap in state.caps.items()} == {
        ROOT: (1, ROOT),
        DIRECTORY: (45, DIRECTORY),
        BELOW: (44, BELOW),
    }
    assert [(realm.ino, realm.parent) for realm in state.realms] == [
        (DIRECTORY, ROOT),
        (ROOT, 0),
        (BELOW, DIRECTORY),
    ]
    assert not state.more
    encoder = Encoder()
    state.encode(encoder, CLIENT_FEATURES)
    assert encoder.getvalue() == RECONNECT


def test_a_cut_reconnection_is_refused():
    for size in range(len(RECONNECT)):
        with pytest.raises(DecodeError):
            ReconnectState.decode(Decoder(RECONNECT[:size]), MClientReconnect.VERSION, CLIENT_FEATURES)


def test_version_4_has_no_more_flag():
    state = ReconnectState.decode(Decoder(RECONNECT[:-1]), 4, CLIENT_FEATURES)
    assert not state.more


def test_inodes_that_do_not_fit_are_refused_before_they_are_read():
    encoder = Encoder()
    SnapHead(num_split_inos=0xFFFFFFFF, num_split_realms=2).encode(encoder, CLIENT_FEATURES)
    with pytest.raises(DecodeError, match=r"4294967295 \+ 2 inodes do not fit"):
        MClientSnap.decode(Decoder(encoder.getvalue()), 1, CLIENT_FEATURES)
