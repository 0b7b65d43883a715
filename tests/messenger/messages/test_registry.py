"""Every payload class: the bytes of real peers, round trips, cuts, and noise."""

import contextlib
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.config import MConfig
from messenger.messages.log import LogEntry, MLog, MLogAck
from messenger.messages.message import Message
from messenger.messages.mon import (
    MMonCommand,
    MMonCommandAck,
    MMonGetMap,
    MMonGetVersion,
    MMonGetVersionReply,
    MMonSubscribe,
    MMonSubscribeAck,
    Subscription,
)
from messenger.messages.monmap import MMonMap, MonInfo, MonMap
from messenger.messages.osd import MOSDMap
from messenger.messages.ping import MPing
from messenger.messages.registry import KNOWN_TYPES, PAYLOADS, decode_payload
from tests.support.osd_payloads import OSD_STRATEGIES

DATA = Path(__file__).parent / "data"
FSID = UUID("6fb3a0c4-7d11-4d10-9b76-1c0b6c9d2e55")
CAPTURED = [line.split() for line in (DATA / "fronts.txt").read_text().splitlines() if not line.startswith("#")]

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
i32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(max_size=12)
text_lists = st.lists(texts, max_size=3)
text_maps = st.dictionaries(texts, texts, max_size=3)
blobs = st.binary(max_size=20)
fsids = st.uuids()
utimes = st.builds(UTime, u32, u32)
addrvecs = st.lists(st.sampled_from(["v2:10.0.0.1:1/2", "v1:[fd00::1]:3", "any:1.2.3.4:0/9"]), max_size=3).map(
    lambda addrs: AddrVec(tuple(map(EntityAddr.parse, addrs)))
)
entity_types = st.sampled_from(EntityType)
log_entries = st.builds(
    LogEntry,
    st.builds(AuthName, entity_types, texts),
    st.builds(EntityName, entity_types, u8),
    addrvecs,
    utimes,
    u64,
    u16,
    texts,
    texts,
)
mon_names = ("a", "b", "c")
mon_infos = st.fixed_dictionaries(
    {name: st.builds(MonInfo, st.just(name), addrvecs, u16, u16, text_maps) for name in mon_names}
)
monmaps = st.builds(
    MonMap,
    fsid=fsids,
    epoch=u32,
    last_changed=utimes,
    created=utimes,
    persistent_features=u64,
    optional_features=u64,
    mon_info=mon_infos,
    ranks=st.permutations(mon_names),
    min_mon_release=u8,
    removed_ranks=st.sets(i32, max_size=3).map(sorted),
    strategy=u8,
    disallowed_leaders=st.sets(texts, max_size=3).map(sorted),
    stretch_mode_enabled=st.booleans(),
    tiebreaker_mon=texts,
    stretch_marked_down_mons=st.sets(texts, max_size=3).map(sorted),
)
maps_by_epoch = st.dictionaries(u32, blobs, max_size=3)

STRATEGIES = {
    MPing: st.builds(MPing),
    MMonMap: st.builds(MMonMap, monmaps),
    MMonGetMap: st.builds(MMonGetMap),
    MMonSubscribe: st.builds(
        MMonSubscribe, st.dictionaries(texts, st.builds(Subscription, u64, u8), max_size=3), texts
    ),
    MMonSubscribeAck: st.builds(MMonSubscribeAck, u32, fsids),
    MMonGetVersion: st.builds(MMonGetVersion, u64, texts),
    MMonGetVersionReply: st.builds(MMonGetVersionReply, u64, u64, u64),
    MOSDMap: st.builds(MOSDMap, fsids, maps_by_epoch, maps_by_epoch, u32, u32),
    MMonCommand: st.builds(MMonCommand, fsids, text_lists, u64),
    MMonCommandAck: st.builds(MMonCommandAck, i32, texts, text_lists, u64),
    MLog: st.builds(MLog, fsids, st.lists(log_entries, max_size=2), u64),
    MLogAck: st.builds(MLogAck, fsids, u64, texts),
    MConfig: st.builds(MConfig, text_maps),
}
STRATEGIES |= OSD_STRATEGIES
UNREAD_TAIL = {MOSDMap: 4}
"""Bytes at the end of a front that its decoder has no use for."""


def test_every_known_type_is_tested_here():
    assert set(STRATEGIES) == set(PAYLOADS.values())
    assert {payload.TYPE for payload in STRATEGIES} == KNOWN_TYPES


@pytest.mark.parametrize(("kind", "version", "compat_version", "front"), CAPTURED)
def test_real_fronts_decode_and_encode_to_the_same_bytes(kind, version, compat_version, front):
    front = b"" if front == "-" else bytes.fromhex(front)
    message = Message(int(kind), memoryview(front), version=int(version), compat_version=int(compat_version))
    reply = Message.of(decode_payload(message, CLIENT_FEATURES))
    reply.encode_front(CLIENT_FEATURES)
    assert reply.front == front
    assert (reply.version, reply.compat_version) == (message.version, message.compat_version)


@pytest.mark.parametrize("payload_type", STRATEGIES)
@given(data=st.data())
def test_roundtrip_and_truncation(payload_type, data):
    payload = data.draw(STRATEGIES[payload_type])
    message = Message.of(payload)
    message.encode_front(CLIENT_FEATURES)
    assert decode_payload(message, CLIENT_FEATURES) == payload
    front = message.front
    message.front = front + b"what a newer version appends"
    assert decode_payload(message, CLIENT_FEATURES) == payload
    needed = len(front) - UNREAD_TAIL.get(payload_type, 0)
    if needed:
        message.front = front[: data.draw(st.integers(0, needed - 1))]
        with pytest.raises(DecodeError):
            decode_payload(message, CLIENT_FEATURES)


@pytest.mark.parametrize("payload_type", STRATEGIES)
@given(data=st.data())
def test_mutated_fronts_decode_or_are_refused(payload_type, data):
    message = Message.of(data.draw(STRATEGIES[payload_type]))
    message.encode_front(CLIENT_FEATURES)
    front = bytearray(message.front) or bytearray(1)
    for _ in range(data.draw(st.integers(1, 4))):
        front[data.draw(st.integers(0, len(front) - 1))] = data.draw(u8)
    message.front = front
    with contextlib.suppress(DecodeError):
        decode_payload(message, CLIENT_FEATURES)


@pytest.mark.parametrize("payload_type", STRATEGIES)
@given(front=st.binary(max_size=200), version=u16)
def test_arbitrary_fronts_decode_or_are_refused(payload_type, front, version):
    message = Message(payload_type.TYPE, front, version=version)
    with contextlib.suppress(DecodeError):
        decode_payload(message, CLIENT_FEATURES)


def test_unknown_types_pass_through():
    assert decode_payload(Message(0x7FF, b"anything"), CLIENT_FEATURES) is None


@pytest.mark.parametrize(("version", "compat_version"), [(9, 4), (4, 0)])
def test_a_payload_for_newer_decoders_is_refused(version, compat_version):
    message = Message.of(MMonSubscribe())
    message.encode_front(CLIENT_FEATURES)
    message.version, message.compat_version = version, compat_version
    with pytest.raises(DecodeError, match="mon_subscribe needs a decoder of version 4, this one knows 3"):
        decode_payload(message, CLIENT_FEATURES)


def test_a_newer_payload_that_says_it_is_compatible_is_read():
    message = Message.of(MMonSubscribe({"monmap": Subscription()}, "host"))
    message.encode_front(CLIENT_FEATURES)
    message.version, message.compat_version = 9, 3
    assert decode_payload(message, CLIENT_FEATURES) == MMonSubscribe({"monmap": Subscription()}, "host")


def test_the_oldest_senders_leave_compat_version_out():
    message = Message.of(MPing())
    message.compat_version = 0
    assert decode_payload(message, CLIENT_FEATURES) == MPing()
