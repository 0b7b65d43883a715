"""A session with a scripted MDS: its messages, and the reactions to its answers."""

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from messenger.messages.mds_caps import CapOp, CapsHead, MClientCaps, MClientLease
from messenger.messages.mds_client import MClientReply, MClientSession, SessionOp
from messenger.messages.mds_client import MdsRequestOp as Op
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.messenger import Connection
from tests.support.aio import on_loop
from toolkit.cephfs.session import MdsSession, State
from toolkit.rados.errors import RadosError


class RecordingSession(MdsSession):
    """A session whose messages go into a list."""

    def __init__(self) -> None:
        super().__init__(0, {"entity_id": "admin"}, lambda: 7)
        self.sent: list[Any] = []
        self.dialled(cast(Connection, SimpleNamespace(send=self.sent.append)))

    def receive(self, op: SessionOp, **fields: Any) -> None:
        self.take_session(MClientSession(op, **fields))


def opened() -> RecordingSession:
    session = RecordingSession()
    session.begin_open()
    session.receive(SessionOp.OPEN)
    session.sent.clear()
    return session


@on_loop
async def test_session_queues_requests_until_it_is_open() -> None:
    session = RecordingSession()
    session.begin_open()
    (opening,) = session.sent
    assert (opening.payload.op, opening.payload.metadata) == (SessionOp.REQUEST_OPEN, {"entity_id": "admin"})
    session.begin(Op.MKDIR, "d")
    assert len(session.sent) == 1
    session.receive(SessionOp.OPEN)
    assert session.sent[1].payload.path.path == "d"


@on_loop
async def test_changes_get_two_replies_and_queries_one() -> None:
    session = opened()
    change, question = session.begin(Op.MKDIR, "d"), session.begin(Op.GETATTR, "d")
    assert [(each.tid, each.payload.head.oldest_client_tid) for each in session.sent] == [(1, 1), (2, 1)]
    session.take_reply(1, MClientReply(Op.MKDIR, 0, safe=False))
    session.take_reply(2, MClientReply(Op.GETATTR, 0, safe=False))
    assert (change.answer.done(), change.safe.done(), question.safe.done()) == (True, False, True)
    session.take_reply(1, MClientReply(Op.MKDIR, 0, safe=True))
    assert change.safe.done()
    assert session.pending == 0
    session.take_reply(1, MClientReply(Op.MKDIR, 0))  # late, and nobody waits


@on_loop
async def test_a_refusal_is_an_error() -> None:
    session = opened()
    asked = asyncio.ensure_future(session.request(Op.MKDIR, "d"))
    await asyncio.sleep(0)
    session.take_reply(1, MClientReply(Op.MKDIR, -errno.EEXIST))
    with pytest.raises(RadosError, match="mkdir d: EEXIST"):
        await asked


@on_loop
async def test_reconnect_sends_the_session_and_unfinished_requests_again() -> None:
    session = opened()
    session.begin(Op.MKDIR, "done")
    session.begin(Op.MKDIR, "lost")
    session.take_reply(1, MClientReply(Op.MKDIR, 0, safe=False))
    session.sent.clear()
    session.begin_reconnect()
    session.begin(Op.MKDIR, "new")
    (reconnect,) = session.sent
    assert (reconnect.type, reconnect.data) == (MessageType.CLIENT_RECONNECT, bytes(8))
    session.become(State.OPEN)
    session.resume()
    again = [
        (each.payload.path.path, each.payload.head.num_retry, each.payload.head.flags) for each in session.sent[1:]
    ]
    # what was answered, but was not on disk, is replayed
    assert again == [("done", 1, 1), ("lost", 1, 0), ("new", 1, 0)]


@pytest.mark.parametrize(
    ("op", "state"), [(SessionOp.CLOSE, State.CLOSED), (SessionOp.REJECT, State.REJECTED)], ids=str
)
@on_loop
async def test_end_of_a_session_fails_all_pending_requests(op: SessionOp, state: State) -> None:
    session = opened()
    request = session.begin(Op.MKDIR, "d")
    session.receive(op, metadata={"error_string": "blocklisted"})
    assert session.state is state
    with pytest.raises(RadosError, match=f"mds rank 0: {state}"):
        await request.safe
    with pytest.raises(RadosError, match=f"session with mds rank 0: {state}"):
        await session.wait(State.OPEN)
    with pytest.raises(RadosError, match=f"the session with mds rank 0 is {state}"):
        session.begin(Op.MKDIR, "e")


@on_loop
async def test_a_stale_session_is_open_again_once_it_is_renewed() -> None:
    session = opened()
    session.renew()
    session.receive(SessionOp.STALE)
    session.renew()
    session.receive(SessionOp.RENEWCAPS, seq=1)
    assert session.state is State.STALE, "that was the answer to the renewal before"
    session.receive(SessionOp.RENEWCAPS, seq=2)
    assert session.state is State.OPEN
    assert [each.payload.seq for each in session.sent] == [1, 2]


@on_loop
async def test_session_returns_revoked_caps_and_leases_and_acknowledges_flushes() -> None:
    session = opened()
    session.take_caps(MClientCaps(CapsHead(op=CapOp.GRANT, ino=5)))
    session.take_caps(MClientCaps(CapsHead(op=CapOp.REVOKE, ino=5, cap_id=3, seq=9, caps=0x55, wanted=1)))
    session.take_lease(MClientLease(action=3, ino=5, name="n"))
    session.take_lease(MClientLease(action=1, mask=1, ino=5, seq=2, name="n"))
    session.receive(SessionOp.FLUSHMSG, seq=4)
    update, lease, flushed = session.sent
    assert lease.payload == MClientLease(action=4, mask=1, ino=5, seq=2, name="n")
    assert update.payload.head == CapsHead(op=CapOp.UPDATE, ino=5, cap_id=3, seq=9, caps=0x55, wanted=0)
    assert (flushed.payload.op, flushed.payload.seq) == (SessionOp.FLUSHMSG_ACK, 4)


@on_loop
async def test_close_counts_messages_about_capabilities() -> None:
    session = opened()
    for kind in (MessageType.CLIENT_CAPS, MessageType.CLIENT_REPLY, MessageType.CLIENT_LEASE):
        session.count(Message(kind))
    session.close()
    (closing,) = session.sent
    assert (closing.payload.op, closing.payload.seq) == (SessionOp.REQUEST_CLOSE, 2)
    session.count(Message(MessageType.CLIENT_CAPS))
    assert session.sent[1].payload.seq == 3, "one more was under way, so the MDS has ignored that"
