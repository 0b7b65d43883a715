"""The client's session with one of the monitors (docs/protocol.md §6.2).

The session is lossy: when it breaks, the client dials the next monitor, renews its subscriptions from the next
epoch, and resends unanswered requests.
"""

import asyncio
import errno
import json
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from messenger.cephx.client import CephxClient
from messenger.cephx.none import NoneClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.connection import Connection
from messenger.denc.address import AddrVec
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import AuthError, Fault, FaultReason
from messenger.messages.auth import MAuthReply
from messenger.messages.message import Message, Payload
from messenger.messages.mon import (
    MMonCommand,
    MMonCommandAck,
    MMonGetVersion,
    MMonGetVersionReply,
    MMonSubscribe,
    Subscription,
)
from messenger.messages.monmap import MMonMap, MonMap
from messenger.messenger import Messenger
from messenger.mon_login import MonLogin
from messenger.session.policy import LOSSY_CLIENT
from toolkit.rados.errors import RadosError

HUNT_INTERVAL_S = 3.0
"""Time limit for a login at one monitor, Ceph's ``mon_client_hunt_interval``."""
FIRST_PAUSE_S = 0.1
PING_TIMEOUT_S = 30.0
"""Time without a keepalive ack after which the next monitor is dialled, Ceph's ``mon_client_ping_timeout``."""

_HOPELESS = {
    FaultReason.AUTH_DENIED: errno.EACCES,
    FaultReason.AUTH_METHOD: errno.EOPNOTSUPP,
    FaultReason.MISSING_FEATURES: errno.EPROTONOSUPPORT,
}
"""Reasons that every monitor would give; they end the attempts before the first login."""


class CommandReply(NamedTuple):
    """Result of a command."""

    output: bytes
    status: str
    """Readable status text."""


class _Question(NamedTuple):
    payload: Payload
    data: Buffer
    answer: "asyncio.Future[Message]"


class Monitors:
    """Keeps a session open with one of the monitors.

    Args:
        messenger: messenger to dial with; its owner passes the events of monitor connections to this object.
        auth: identity of the client; receives the tickets.
        addrs: addresses of monitors; further ones are learnt from the monitor map.
        rotating: a daemon's keyring of service keys, which is kept up to date.
    """

    def __init__(
        self,
        messenger: Messenger,
        auth: CephxClient | NoneClient,
        addrs: Sequence[AddrVec],
        rotating: RotatingKeyring | None = None,
    ) -> None:
        self._messenger = messenger
        self._auth = auth
        self._rotating = rotating
        self._addrs = list(addrs)
        self._types = {addr.type for addrs_of_one in addrs for addr in addrs_of_one}
        self._next_addrs = 0
        self._connection: Connection | None = None
        self._login: MonLogin | None = None
        self._open = False
        self._opened_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pause_s = 0.0
        self._tids = count(1)
        self._questions: dict[int, _Question] = {}
        self._subscriptions: dict[str, int] = {"monmap": 0, "osdmap": 0}
        self.monmap: MonMap | None = None
        self.has_monmap = asyncio.Event()
        self._stopped = False
        self._last_fault: Fault | None = None
        self.refusal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the monitors reject the first login for a reason that retries cannot cure."""

    # ---- for the application

    async def command(self, command: dict[str, Any], data: Buffer = b"") -> CommandReply:
        """Run a monitor command.

        Args:
            command: the command's ``prefix`` and arguments.
            data: its input.

        Raises:
            RadosError: it failed.
        """
        assert self.monmap is not None
        message = await self._ask(MMonCommand(self.monmap.fsid, [json.dumps(command)]), data)
        ack = message.payload
        assert isinstance(ack, MMonCommandAck)
        if ack.r < 0:
            raise RadosError(-ack.r, f"{command.get('prefix', command)}: {ack.rs}")
        return CommandReply(bytes(message.data), ack.rs)

    @property
    def connection(self) -> Connection | None:
        """The session with a monitor, ready or being opened; None between two attempts."""
        return self._connection

    @property
    def last_fault(self) -> Fault | None:
        """Why the last session with a monitor, or attempt to open one, failed; None if none has failed yet."""
        fault = None if self._connection is None else self._connection.last_fault
        return fault or self._last_fault

    def send(self, message: Message | Payload) -> bool:
        """Send a message that has no reply. Returns False without sending it if no session is logged in."""
        return self._open and self._connection is not None and self._connection.send(message)

    async def newest_epoch(self, what: str) -> int:
        """Return the newest epoch of a map, from the monitors."""
        tid = next(self._tids)
        message = await self._ask(MMonGetVersion(tid, what), b"", tid)
        assert isinstance(message.payload, MMonGetVersionReply)
        return message.payload.version

    def usable(self, addrs: AddrVec) -> AddrVec:
        """Return a daemon's addresses of the protocols that the monitors were given with."""
        return AddrVec(tuple(addr for addr in addrs if addr.type in self._types)) or addrs

    async def _ask(self, payload: Payload, data: Buffer, tid: int = 0) -> Message:
        if self._stopped:
            raise RadosError(errno.ESHUTDOWN, "question to the monitors")
        tid = tid or next(self._tids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        question = self._questions[tid] = _Question(payload, data, answer)
        try:
            if self._open:
                self._send(tid, question)
            return await answer
        finally:
            del self._questions[tid]

    def _send(self, tid: int, question: _Question) -> None:
        assert self._connection is not None
        self._connection.send(Message.of(question.payload, data=question.data, tid=tid))

    # ---- for the owner

    def start(self) -> None:
        """Dial the first monitor."""
        self._dial()

    def stop(self) -> None:
        """Dial no more, and fail all pending requests."""
        self._cancel_timer()
        self._stopped = True
        self._connection = None
        self._open = False
        self.refusal.cancel()
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(RadosError(errno.ESHUTDOWN, "question to the monitors"))

    def got(self, what: str, epoch: int) -> None:
        """Note that a map of that epoch has arrived; the next session subscribes from the following epoch on."""
        self._subscriptions[what] = max(self._subscriptions[what], epoch + 1)

    def subscribe(self, what: str) -> None:
        """Follow one more map, from its newest epoch on."""
        if what not in self._subscriptions:
            self._subscriptions[what] = 0
            if self._open and self._connection is not None:
                self._connection.send(MMonSubscribe({what: Subscription(0)}))

    def tick(self, wall_time_s: float) -> None:
        """Send a keepalive and renew tickets; dial the next monitor if this one does not answer."""
        if not self._open or self._connection is None:
            return
        acked_s = max(self._connection.session.keepalive_acked_s, self._opened_s)
        if wall_time_s - acked_s > PING_TIMEOUT_S:
            self._hunt()
            return
        self._connection.keepalive()
        self.renew_tickets(wall_time_s)

    def renew_tickets(self, wall_time_s: float) -> None:
        """Request new tickets for those that are about to expire or were rejected."""
        if self._open and self._login is not None:
            self._login.renew(wall_time_s)

    def connected(self, connection: Connection, wall_time_s: float) -> None:
        """Start the login on a session that became ready; on v2 it is complete already."""
        if connection is not self._connection:
            return
        self._login = MonLogin(connection, self._auth, self._messenger.endpoint.rng, self._rotating)
        self._login.start(wall_time_s)
        if self._login.done:
            self._enter(connection, wall_time_s)

    def _enter(self, connection: Connection, wall_time_s: float) -> None:
        self._cancel_timer()
        self._open, self._opened_s, self._pause_s = True, wall_time_s, 0.0
        if self._auth.name.type is EntityType.CLIENT:
            # OSDs identify clients and their repeated requests by this number
            self._messenger.endpoint.name = EntityName(EntityType.CLIENT, self._auth.global_id)
        connection.send(MMonSubscribe({what: Subscription(start) for what, start in self._subscriptions.items()}))
        for tid, question in sorted(self._questions.items()):
            self._send(tid, question)
        if self._rotating is not None:
            self.renew_tickets(wall_time_s)

    def _on_auth_reply(self, connection: Connection, reply: MAuthReply, wall_time_s: float) -> None:
        assert self._login is not None
        try:
            self._login.take(reply, wall_time_s)
        except AuthError as error:
            if not self._open:
                self.lost(connection, Fault(error.reason, error.detail))
        else:
            if self._login.done and not self._open:
                self._enter(connection, wall_time_s)

    def lost(self, connection: Connection, fault: Fault) -> None:
        """Dial the next monitor, because the session ended or the monitor rejected it."""
        if connection is not self._connection:
            return
        number = _HOPELESS.get(fault.reason)
        if number is not None and self.monmap is None and not self.refusal.done():
            self.refusal.set_exception(RadosError(number, f"monitor at {connection.session.peer_addrs}: {fault}"))
        self._hunt()

    def dispatch(self, connection: Connection, message: Message, wall_time_s: float) -> None:
        """Process a message of the monitor; raises DecodeError."""
        payload = message.payload
        if connection is not self._connection:
            return
        if isinstance(payload, MMonMap):
            self._take_monmap(payload.monmap)
        elif isinstance(payload, MAuthReply):
            self._on_auth_reply(connection, payload, wall_time_s)
        elif isinstance(payload, MMonCommandAck):
            self._answer(message.tid, message)
        elif isinstance(payload, MMonGetVersionReply):
            self._answer(payload.handle, message)

    def _answer(self, tid: int, message: Message) -> None:
        question = self._questions.get(tid)
        if question is not None and not question.answer.done():
            question.answer.set_result(message)

    def _take_monmap(self, monmap: MonMap) -> None:
        self.monmap = monmap
        self.has_monmap.set()
        self.got("monmap", monmap.epoch)
        addrs = [self.usable(monmap.mon_info[name].public_addrs) for name in monmap.ranks]
        self._addrs = [known for known in addrs if len(known)] or self._addrs

    # ---- hunting

    def _hunt(self) -> None:
        """Close the session and dial the next monitor, after a back-off."""
        self._last_fault = self.last_fault
        if self._connection is not None:
            self._connection.mark_down()
        self._connection, self._login, self._open = None, None, False
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(self._pause_s, self._dial)
        self._pause_s = min(max(self._pause_s * 2, FIRST_PAUSE_S), HUNT_INTERVAL_S)

    def _dial(self) -> None:
        addrs = self._addrs[self._next_addrs % len(self._addrs)]
        self._next_addrs += 1
        self._connection = self._messenger.connect(addrs, EntityType.MON, LOSSY_CLIENT)
        self._timer = asyncio.get_running_loop().call_later(HUNT_INTERVAL_S, self._hunt)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
