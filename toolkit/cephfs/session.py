"""A client's session with the MDS of one rank (docs/mds.md)."""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING

from messenger.denc.codec import Encoder
from messenger.messages.mds_caps import CapOp, MClientCaps, MClientLease
from messenger.messages.mds_client import (
    FilePath,
    MClientReply,
    MClientRequest,
    MClientSession,
    MdsRequestOp,
    RequestHead,
    SessionOp,
)
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from toolkit.rados.errors import RadosError

if TYPE_CHECKING:
    from messenger.messenger import Connection

ROOT_INO = 1
_CHANGES = 0x1000
"""Bit of the operations that modify the file system: they have a second reply once the change is on disk."""
_REPLAYED = 1
_LEASE_REVOKE, _LEASE_REVOKE_ACK = 1, 4
_FEATURES = (0x1FF).to_bytes(8, "little")
"""File system features that all releases since Mimic support."""
_RECONNECT_VERSION = 4


class State(StrEnum):
    """State of a session."""

    OPENING = "opening"
    OPEN = "open"
    STALE = "stale"
    """The session was not renewed within the file system's ``session_timeout``."""
    RECONNECTING = "reconnecting"
    """Another daemon took the rank over: CLIENT_RECONNECT was sent, and the rank is not active yet."""
    CLOSING = "closing"
    CLOSED = "closed"
    REJECTED = "rejected"
    RESET = "reset"
    """The MDS has lost or evicted the session."""


_COUNTED = frozenset({MessageType.CLIENT_CAPS, MessageType.CLIENT_LEASE, MessageType.CLIENT_SNAP})
_OVER = frozenset({State.CLOSED, State.REJECTED, State.RESET})


@dataclass(slots=True, eq=False)
class Request:
    """An operation on the file system."""

    payload: MClientRequest
    answer: "asyncio.Future[MClientReply]"
    """The first reply."""
    safe: "asyncio.Future[MClientReply]"
    """The last reply: the change is on disk."""
    retries: int = 0


@dataclass(slots=True)
class Event:
    """An event of a session."""

    what: str
    """A :class:`State`, or ``renewed``, ``connected`` or ``resent``."""
    detail: str = ""


@dataclass(slots=True)
class _Waiter:
    holds: Callable[[], bool]
    done: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class MdsSession:
    """A session with the MDS of one rank; :meth:`toolkit.cephfs.client.FsClient.open` creates it.

    Args:
        rank: rank of the MDS.
        metadata: description of this client that the MDS shows.
        epoch: returns the epoch of the newest MDS map.
    """

    def __init__(self, rank: int, metadata: dict[str, str], epoch: Callable[[], int]) -> None:
        self.rank = rank
        self.state = State.OPENING
        self.events: list[Event] = []
        """Events of the session, the oldest first."""
        self.connection: Connection
        self.doubt = ""
        """Reason to suspect that the MDS has lost the session; empty if there is none."""
        self._metadata = metadata
        self._epoch = epoch
        self._tids = count(1)
        self._requests: dict[int, Request] = {}
        self._renewals = 0
        self._counted = 0
        """Received messages about capabilities. The MDS ignores a close whose count is too low."""
        self._waiters: list[_Waiter] = []

    # ---- for the application

    @property
    def is_over(self) -> bool:
        """True if the session has ended and must be opened again."""
        return self.state in _OVER

    async def request(
        self, op: MdsRequestOp, path: str, *, path2: str = "", arguments: bytes = b"", safe: bool = True
    ) -> MClientReply:
        """Send a request and wait for its reply.

        The operation is executed once, even if links break or another daemon takes the rank over.

        Args:
            op: operation.
            path: path of its object, from the root directory.
            path2: second path, for operations with two.
            arguments: arguments of the operation (docs/mds.md), padded with zeros.
            safe: wait until a change is on disk.

        Raises:
            RadosError: the operation failed, or the session has ended.
        """
        request = self.begin(op, path, path2=path2, arguments=arguments)
        reply = await (request.safe if safe else request.answer)
        if reply.result < 0:
            raise RadosError(-reply.result, f"{op.name.lower()} {path}")
        return reply

    def begin(self, op: MdsRequestOp, path: str, *, path2: str = "", arguments: bytes = b"") -> Request:
        """Send a request without waiting for its reply. Raises RadosError if the session has ended."""
        if self.is_over:
            raise RadosError(errno.ENOTCONN, f"the session with mds rank {self.rank} is {self.state}")
        head = RequestHead(version=1, op=op, arguments=arguments.ljust(56, b"\0"), mdsmap_epoch=self._epoch())
        payload = MClientRequest(head, FilePath(ino=ROOT_INO, path=path), FilePath(path=path2))
        loop = asyncio.get_running_loop()
        request = Request(payload, loop.create_future(), loop.create_future())
        tid = next(self._tids)
        self._requests[tid] = request
        if self.state in (State.OPEN, State.STALE):
            self._send_request(tid, request)
        return request

    @property
    def pending(self) -> int:
        """Number of requests without a reply, or whose change is not on disk yet."""
        return len(self._requests)

    def renew(self) -> None:
        """Renew the session; the MDS requires this within ``session_timeout``."""
        self._renewals += 1
        self._send_op(SessionOp.REQUEST_RENEWCAPS, seq=self._renewals)

    def close(self) -> None:
        """Request the end of the session; :attr:`state` becomes CLOSED when the MDS confirms it."""
        self.become(State.CLOSING)
        self._ask_to_close()

    async def wait(self, *states: State) -> None:
        """Wait until the session is in one of these states.

        Raises:
            RadosError: the session ended in another state.
        """
        await self.wait_until(lambda: self.state in states or self.is_over)
        if self.state not in states:
            detail = self.events[-1].detail
            number = errno.EACCES if self.state is State.REJECTED else errno.ECONNRESET
            raise RadosError(number, f"session with mds rank {self.rank}: {self.state}{detail and f': {detail}'}")

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds`` is true; it is evaluated after each event and reply."""
        if not holds():
            self._waiters.append(waiter := _Waiter(holds))
            await waiter.done

    def times(self, what: str) -> int:
        """Return the number of events of one kind."""
        return sum(event.what == what for event in self.events)

    # ---- for the client

    def dialled(self, connection: "Connection") -> None:
        """Use a new connection; messages are queued until it opens."""
        self.connection, self.doubt = connection, ""

    def begin_open(self) -> None:
        """Request the session."""
        message = MClientSession(SessionOp.REQUEST_OPEN, metadata=self._metadata, supported_features=_FEATURES)
        self.connection.send(Message.of(message))

    def begin_reconnect(self) -> None:
        """Send CLIENT_RECONNECT, without capabilities, to the daemon that took the rank over."""
        self.become(State.RECONNECTING)
        self._counted = 0
        encoder = Encoder()
        encoder.u32(0)  # capabilities
        encoder.u32(0)  # snapshot realms
        message = Message(
            MessageType.CLIENT_RECONNECT,
            data=encoder.getvalue(),
            version=_RECONNECT_VERSION,
            compat_version=_RECONNECT_VERSION,
        )
        self.connection.send(message)

    def resume(self) -> None:
        """Resend all requests without a final reply, once the rank is active again."""
        for tid, request in sorted(self._requests.items()):
            request.retries += 1
            self._send_request(tid, request)
            self.record("resent", f"{tid}")

    def take_session(self, payload: MClientSession) -> None:
        """Process a session message of the MDS."""
        op = payload.op
        if op == SessionOp.OPEN:
            self._opened()
        elif op == SessionOp.RENEWCAPS:
            self.record("renewed", f"{payload.seq}")
            if self.state is State.STALE and payload.seq == self._renewals:
                self.become(State.OPEN)
        elif op == SessionOp.STALE:
            self.become(State.STALE)
        elif op == SessionOp.CLOSE:
            self.end(State.CLOSED)
        elif op == SessionOp.REJECT:
            self.end(State.REJECTED, payload.metadata.get("error_string", ""))
        elif op == SessionOp.FLUSHMSG:
            self._send_op(SessionOp.FLUSHMSG_ACK, seq=payload.seq)

    def take_reply(self, tid: int, reply: MClientReply) -> None:
        """Process a reply."""
        request = self._requests.get(tid)
        if request is None:
            return
        if not request.answer.done():
            request.answer.set_result(reply)
        changes = bool(request.payload.head.op & _CHANGES)
        if reply.safe or reply.result < 0 or not changes:
            del self._requests[tid]
            request.safe.set_result(reply)
            self._look()

    def count(self, message: Message) -> None:
        """Count a received message if it is about capabilities."""
        if message.type in _COUNTED:
            self._counted += 1
            if self.state is State.CLOSING:
                self._ask_to_close()  # the MDS ignores the close with the lower count

    def take_caps(self, payload: MClientCaps) -> None:
        """Return revoked capabilities; the client has no unwritten changes."""
        if payload.head.op == CapOp.REVOKE:
            self.connection.send(Message.of(MClientCaps(replace(payload.head, op=CapOp.UPDATE, wanted=0))))

    def take_lease(self, payload: MClientLease) -> None:
        """Return a revoked lease on a name; without an answer the MDS waits until the lease expires."""
        if payload.action == _LEASE_REVOKE:
            self.connection.send(Message.of(replace(payload, action=_LEASE_REVOKE_ACK)))

    def end(self, state: State, detail: str = "") -> None:
        """End the session; pending requests fail."""
        self.become(state, detail)
        requests, self._requests = self._requests, {}
        for request in requests.values():
            for future in (request.answer, request.safe):
                if not future.done():
                    future.set_exception(
                        RadosError(errno.ECONNRESET, f"session with mds rank {self.rank}: {state}")
                    )
                    future.exception()  # callers often await only one of the two

    def become(self, state: State, detail: str = "") -> None:
        """Enter a state and record the event."""
        self.state = state
        self.record(state.value, detail)

    def record(self, what: str, detail: str = "") -> None:
        """Record an event."""
        self.events.append(Event(what, detail))
        self._look()

    # ---- internals

    def _opened(self) -> None:
        """Process OPEN; a daemon that took the rank over sends it before the rank is active."""
        if self.state is not State.OPENING:
            return
        self.become(State.OPEN)
        for tid, request in sorted(self._requests.items()):
            self._send_request(tid, request)

    def _look(self) -> None:
        for waiter in list(self._waiters):
            if waiter.holds():
                self._waiters.remove(waiter)
                if not waiter.done.done():
                    waiter.done.set_result(None)

    def _ask_to_close(self) -> None:
        self._send_op(SessionOp.REQUEST_CLOSE, seq=self._counted)

    def _send_op(self, op: SessionOp, *, seq: int) -> None:
        self.connection.send(Message.of(MClientSession(op, seq=seq)))

    def _send_request(self, tid: int, request: Request) -> None:
        flags = _REPLAYED if request.retries and request.answer.done() else 0
        head = replace(
            request.payload.head,
            oldest_client_tid=min(self._requests),
            num_retry=request.retries,
            flags=flags,
            mdsmap_epoch=self._epoch(),
        )
        self.connection.send(Message.of(replace(request.payload, head=head), tid=tid))
