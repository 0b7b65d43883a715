"""Subjects of messages to and between OSDs."""

from collections.abc import Iterator

import pytest

from captures.expected import CAPTURE, HERE, KEYRING
from messenger.denc.features import ALL_FEATURES
from messenger.messages.message import Message, Payload
from messenger.messages.osd_objects import HObject, ObjectLocator, RequestId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OsdOp
from messenger.messages.osd_repop import LogOp, MOSDRepOp, PgLogEntry
from messenger.messages.pg import PgId
from messenger.messages.pg_info import PgInfo, PgStat
from messenger.messages.pg_log import MOSDPGLog
from messenger.messages.pg_recovery import MOSDPGPushReply
from messenger.messages.ping import MPing
from messenger.messages.pool import EVersion
from tests.toolkit.dissect.test_filters import message_frame
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.filters import compile_filter
from toolkit.dissect.frames import DecodedFrame, MessageInfo
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.payloads import NOTHING, Subject, subject_of

PG = ShardedPgId(PgId(3, 0x1F), 2)
OPS = [OsdOp(OpCode.CREATE), OsdOp(OpCode.STAT)]
AT = EVersion(7, 5)
CLONE = HObject(oid="o", snap=4, pool=3)
LOG = [PgLogEntry(LogOp.CLONE, CLONE, AT), PgLogEntry(77, CLONE, AT)]
REQUEST = MOSDOp(PG, 1, 5, 0x80000024, ObjectLocator(3), "o2", OPS)


def frame_of(payload: Payload, size: int | None = None) -> DecodedFrame:
    """A frame with a message, its front cut to ``size``."""
    message = Message.of(payload)
    message.encode_front(ALL_FEATURES)
    front = bytes(message.front)[:size]
    frame = message_frame()
    names = MessageInfo._fields
    numbers = dict.fromkeys(names, 0) | {"type": payload.TYPE, "name": "", "src": "", "version": message.version}
    frame.message = MessageInfo(**numbers)
    frame.segments, frame.features = (b"", front, b"", b""), ALL_FEATURES
    return frame


@pytest.mark.parametrize(
    ("payload", "subject"),
    [
        (REQUEST, Subject("o2", 3, "3.1fs2", None, "CREATE+STAT", None, "ONDISK+WRITE+0x80000000")),
        (
            MOSDOp(PG, 1, 5, 0, ObjectLocator(3), "o", [], snapid=9),
            Subject("o", 3, "3.1fs2", 9, "", None, ""),
        ),
        (
            MOSDOpReply("o", PgId(3, 0x1F), 0, -2, 5, OPS, [0, -2]),
            Subject("o", 3, "3.1f", None, "CREATE+STAT", -2, ""),
        ),
        (
            MOSDRepOp(5, 5, RequestId(), PG, CLONE, 5, AT, LOG, PgStat()),
            Subject("o", 3, "3.1fs2", 4, "CLONE+0x4d"),
        ),
        (MOSDPGPushReply(PG.pgid, 5, shard=2), Subject(None, 3, "3.1fs2")),
        (MOSDPGLog(5, PgInfo(PG.pgid), to=2), Subject(None, 3, "3.1fs2")),
        (MPing(), NOTHING),
    ],
)
def test_subjects(payload: Payload, subject: Subject) -> None:
    frame = frame_of(payload)
    assert subject_of(frame) == subject
    for name in ("object", "pool", "pg", "snap", "op", "result", "flags"):
        assert compile_filter(f"{name} == {getattr(subject, name)!r}")(frame)


def test_frames_without_information() -> None:
    assert subject_of(frame_of(REQUEST, 20)) == NOTHING
    assert not compile_filter('object == "o"')(frame_of(REQUEST, 20))
    cut = frame_of(REQUEST)
    cut.segments = ()
    assert subject_of(cut) == NOTHING
    assert subject_of(message_frame()) == NOTHING


def of_capture(name: str) -> Iterator[DecodedFrame]:
    return decode_capture(HERE / name / CAPTURE, KeyBook.read([HERE / name / KEYRING]))


def test_a_write_and_those_of_its_replicas_have_the_same_object() -> None:
    wanted = compile_filter('object == "object" and pg == "1.0"')
    names = {frame.message.name for frame in of_capture("reef-osds") if wanted(frame) and frame.message}
    assert names == {"osd_op", "osd_op_reply", "osd_repop"}
