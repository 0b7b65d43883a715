"""Requests and replies: what real ones hold, both versions of requests, and how data is split."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.message import Message
from messenger.messages.osd_client import MWatchNotify, NotifyOp
from messenger.messages.osd_objects import (
    NOSNAP,
    EVersion,
    HObject,
    ObjectLocator,
    PgId,
    RequestRedirect,
    ShardedPgId,
)
from messenger.messages.osd_op import OP_PRIORITY, MOSDOp
from messenger.messages.osd_op_data import ListEntry, Listing, Watcher, input_of, operation, output_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, RequestFlag, join_data
from messenger.messages.registry import decode_payload
from messenger.messages.types import MessageType

SQUID = CLIENT_FEATURES | Feature.SERVER_SQUID
CAPTURED = Path(__file__).parent / "data" / "osd_messages.txt"


def unhex(field: str) -> bytes:
    return b"" if field == "-" else bytes.fromhex(field)


def captured() -> list[Message]:
    lines = [line.split() for line in CAPTURED.read_text().splitlines() if not line.startswith("#")]
    return [
        Message(int(kind), unhex(front), data=unhex(data), version=int(version), compat_version=int(compat))
        for kind, version, compat, front, data in lines
    ]


MESSAGES = captured()


def of_type(kind: MessageType) -> list[tuple[Message, object]]:
    return [(message, decode_payload(message, CLIENT_FEATURES)) for message in MESSAGES if message.type == kind]


def ops_of(kind: MessageType) -> dict[str, object]:
    """The first operation of each captured request or reply, by name, with its data."""
    found = {}
    for message, payload in of_type(kind):
        payload.take_data(message)
        found.setdefault(payload.ops[0].name, payload.ops[0])
    return found


REQUESTED, REPLIED = ops_of(MessageType.OSD_OP), ops_of(MessageType.OSD_OPREPLY)


@pytest.mark.parametrize("message", MESSAGES)
def test_real_messages_decode_and_encode_to_the_same_bytes(message):
    again = Message.of(decode_payload(message, CLIENT_FEATURES))
    again.encode_front(CLIENT_FEATURES)
    assert again.front == message.front
    assert (again.version, again.compat_version) == (message.version, message.compat_version)


def test_a_real_write_in_full():
    message, request = of_type(MessageType.OSD_OP)[0]
    request.take_data(message)
    assert request == MOSDOp(
        pgid=ShardedPgId(PgId(1, 7)),
        hash=0x23D57577,
        osdmap_epoch=9,
        flags=RequestFlag.ONDISK | RequestFlag.WRITE | RequestFlag.KNOWN_REDIR,
        locator=ObjectLocator(1),
        oid="w",
        ops=[operation(OpCode.WRITEFULL, b"hello rados")],
        mtime=request.mtime,
        snapid=NOSNAP,
        features=CLIENT_FEATURES,
    )
    assert request.ops[0].data == b"hello rados"
    _, reply = of_type(MessageType.OSD_OPREPLY)[0]
    assert (reply.oid, reply.pgid, reply.result, reply.return_values) == ("w", PgId(1, 7), 0, [0])
    assert (reply.replay_version, reply.user_version) == (EVersion(1, 9), 1)


def test_a_real_refusal():
    _, refused = of_type(MessageType.OSD_OPREPLY)[-1]
    assert refused.result == -2
    assert refused.ops[0].name == "STAT"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("WRITEFULL", {"data": b"hello rados"}),
        ("SETXATTR", {"name": "color", "value": b"blue"}),
        ("GETXATTR", {"name": "color"}),
        ("OMAPSETVALS", {"values": {"k1": b"v1"}}),
        ("OMAPGETVALS", {"start_after": "", "max": 1024, "filter_prefix": ""}),
        ("OMAPGETVALSBYKEYS", {"keys": ["k1"]}),
        ("NOTIFY", {"version": 1, "timeout_s": 10, "payload": b"\3\0\0\0hey"}),
        ("PGNLS", {"cursor": HObject(snap=0)}),
        ("STAT", {}),
    ],
)
def test_inputs_of_real_requests_are_decoded_and_built_alike(name, values):
    op = REQUESTED[name]
    assert input_of(op) == values
    again = operation(OpCode[name], *values.values(), op_flags=op.flags, **op.args)
    assert (again, bytes(again.data)) == (op, bytes(op.data))


def test_a_real_call():
    op = REQUESTED["CALL"]
    taken = input_of(op)
    assert (taken["class"], taken["method"]) == ("lock", "lock")
    assert operation(OpCode.CALL, *taken.values()) == op


def test_operations_with_flags_of_their_own():
    op = operation(OpCode.SETALLOCHINT, op_flags=4, expected_object_size=1, expected_write_size=2, flags=3)
    assert op.flags == 4
    assert op.args == {"expected_object_size": 1, "expected_write_size": 2, "flags": 3}


def test_outputs_of_real_replies_are_decoded():
    size, mtime = output_of(REPLIED["STAT"]).values()
    assert (size, mtime.sec > 1 << 30) == (11, True)
    assert output_of(REPLIED["READ"]) == {"data": b"hello rados"}
    assert output_of(REPLIED["GETXATTR"]) == {"value": b"blue"}
    assert output_of(REPLIED["GETXATTRS"]) == {"xattrs": {"color": b"blue"}}
    assert output_of(REPLIED["OMAPGETVALS"]) == {"values": {"k1": b"v1"}, "truncated": False}
    assert output_of(REPLIED["OMAPGETKEYS"]) == {"keys": ["k1"], "truncated": False}
    assert output_of(REPLIED["OMAPGETHEADER"]) == {"header": b"hh"}
    assert output_of(REPLIED["NOTIFY"])["notify_id"] > 0
    assert output_of(REPLIED["WRITEFULL"]) == {}


def test_a_real_list_of_watchers():
    (watcher,) = output_of(REPLIED["LIST_WATCHERS"])["watchers"]
    assert watcher == Watcher(
        EntityName(EntityType.CLIENT, 4115), 93860952603952, 30, EntityAddr.parse("any:127.0.0.1:0/326667873")
    )


def test_a_real_listing():
    listing = output_of(REPLIED["PGNLS"])["listing"]
    encoder = Encoder()
    listing.encode(encoder)
    assert encoder.getvalue() == REPLIED["PGNLS"].data
    assert Listing.decode(Decoder(encoder.getvalue())) == listing
    assert all(isinstance(entry, ListEntry) for entry in listing.entries)


def test_a_real_notification_and_its_end():
    (_, notified), (message, complete) = of_type(MessageType.WATCH_NOTIFY)
    assert isinstance(notified, MWatchNotify)
    assert (notified.opcode, notified.payload) == (NotifyOp.NOTIFY, b"\3\0\0\0hey")
    assert (complete.opcode, complete.payload, complete.return_code) == (NotifyOp.NOTIFY_COMPLETE, b"", 0)
    assert complete.notify_id == notified.notify_id
    assert len(message.data) > 0  # the watchers' replies are in the data segment


def request(**changes) -> MOSDOp:
    parts = {"pgid": ShardedPgId(PgId(3, 6)), "hash": 0x7FC1F406, "osdmap_epoch": 4, "flags": 0x24}
    parts |= {"locator": ObjectLocator(3), "oid": "foo", "ops": [operation(OpCode.DELETE)]}
    return MOSDOp(**parts | changes)


def encoded(payload, features: int) -> Message:
    message = Message.of(payload)
    message.encode_front(features)
    return message


def test_version_9_goes_to_peers_from_squid_on():
    old, new = encoded(request(), CLIENT_FEATURES), encoded(request(), SQUID)
    assert (old.version, new.version) == (8, 9)
    assert (old.compat_version, new.compat_version) == (3, 3)
    # docs/protocol.md §6.4.1, field 6a: an envelope with one zero byte, after pgid 24, hash to flags 12, reqid 27,
    # trace 24
    at = 24 + 12 + 27 + 24
    features = slice(-8, None)
    assert new.front[:at] + new.front[at + 7 : -8] == old.front[:-8]
    assert new.front[at : at + 7] == b"\1\1\1\0\0\0\0"
    assert new.front[features] == SQUID.to_bytes(8, "little")
    assert decode_payload(old, CLIENT_FEATURES) == request(features=CLIENT_FEATURES)
    assert decode_payload(new, SQUID) == request(features=SQUID)


def test_the_version_follows_the_connection_of_the_moment():
    message = encoded(request(), SQUID)
    message.encode_front(CLIENT_FEATURES)
    assert message.version == 8


def test_older_requests_and_replies_are_refused():
    for payload, version in ((request(), 7), (MOSDOpReply("", PgId(1, 1), 0, 0, 0, [], []), 5)):
        message = encoded(payload, CLIENT_FEATURES)
        message.version = version
        with pytest.raises(DecodeError, match=f"of version {version}, at least {version + 1} is known"):
            decode_payload(message, CLIENT_FEATURES)


def test_more_operations_than_bytes():
    front = bytearray(encoded(request(), CLIENT_FEATURES).front)
    at = front.index(b"\3\0\0\0foo") + 7
    front[at : at + 2] = b"\xff\xff"
    with pytest.raises(DecodeError, match="65535 operations need"):
        MOSDOp.decode(Decoder(front), 8, CLIENT_FEATURES)


@pytest.mark.parametrize("redirect", [None, RequestRedirect(ObjectLocator(7), "there")])
def test_replies_of_versions_6_and_7(redirect):
    reply = MOSDOpReply("foo", PgId(1, 1), 0, 0, 0, [], [], redirect=redirect)
    front = encoded(reply, CLIENT_FEATURES).front
    assert MOSDOpReply.decode(Decoder(front[:-24]), 7, CLIENT_FEATURES) == reply
    encoder = Encoder()
    (redirect or RequestRedirect()).encode(encoder, CLIENT_FEATURES)
    before = 4 + 3 + 17 + 8 + 4 + 12 + 4 + 4 + 4 + 12 + 8
    always = front[:before] + encoder.getvalue()
    assert MOSDOpReply.decode(Decoder(always), 6, CLIENT_FEATURES) == reply


def test_the_message_of_a_request():
    message = request(
        ops=[operation(OpCode.WRITE, b"abc", offset=5), operation(OpCode.SETXATTR, "k", b"v")]
    ).message(7)
    assert (message.tid, message.priority, message.data) == (7, OP_PRIORITY, b"abckv")


@given(st.lists(st.binary(max_size=5), max_size=4))
def test_data_is_split_as_it_was_joined(parts):
    ops = [operation(OpCode.APPEND, part) for part in parts]
    received = request(ops=ops)
    received.take_data(Message(MessageType.OSD_OP, data=join_data(ops)))
    assert [bytes(op.data) for op in received.ops] == parts
    with pytest.raises(DecodeError, match="bytes of data"):
        received.take_data(Message(MessageType.OSD_OP, data=bytes(join_data(ops)) + b"x"))


def test_one_large_input_is_not_copied():
    data = memoryview(bytes(100))
    assert join_data([operation(OpCode.WRITE, data), operation(OpCode.STAT)]) is data


def test_mtime_is_written():
    assert decode_payload(encoded(request(mtime=UTime(5, 6)), 0), 0).mtime == UTime(5, 6)
