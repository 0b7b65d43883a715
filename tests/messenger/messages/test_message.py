from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2
from messenger.messages.message import PRIORITY_HIGH, Message
from messenger.messages.mon import MMonCommand, MMonGetVersionReply
from messenger.messages.monmap import MMonMap, MonInfo, MonMap


def test_a_message_takes_type_and_versions_from_its_payload():
    payload = MMonGetVersionReply(1, 2, 3)
    message = Message.of(payload, data=b"abc", tid=9, priority=PRIORITY_HIGH)
    assert (message.type, message.version, message.compat_version) == (20, 2, 2)
    assert (message.tid, message.priority, message.data, message.seq) == (9, 196, b"abc", 0)
    assert message.payload is payload


def test_defaults_of_a_message():
    message = Message(99)
    assert (message.priority, message.tid, message.seq, message.flags, message.data_off) == (127, 0, 0, 0, 0)
    assert (message.version, message.compat_version, message.size_bytes, message.payload) == (1, 1, 0, None)


def test_front_follows_the_features_of_the_moment():
    addrs = AddrVec.parse("[v2:10.0.0.1:3300,v1:10.0.0.1:6789]")
    message = Message.of(MMonMap(MonMap(UUID(int=1), mon_info={"a": MonInfo("a", addrs)}, ranks=["a"])))
    message.encode_front(CLIENT_FEATURES)
    modern = message.front
    message.encode_front(CLIENT_FEATURES & ~MSG_ADDR2)
    legacy = message.front
    message.encode_front(CLIENT_FEATURES)
    assert message.front == modern != legacy
    assert addrs.legacy_addr().legacy_image() in legacy


def test_front_of_an_untyped_message_is_left_alone():
    message = Message(99, b"as it came")
    message.encode_front(CLIENT_FEATURES)
    assert message.front == b"as it came"


def test_size_counts_all_three_parts():
    assert Message(99, b"ab", memoryview(b"cde"), b"f").size_bytes == 6


def test_repr_is_short_however_long_the_data():
    message = Message.of(MMonCommand(UUID(int=0), ["{}"]), data=bytes(1 << 20), tid=4)
    assert repr(message) == "<Message mon_command v1 seq 0 tid 4 0+0+1048576 bytes>"


def test_messages_are_compared_by_identity():
    assert Message(1) != Message(1)
    assert len({Message(1), Message(1)}) == 2
