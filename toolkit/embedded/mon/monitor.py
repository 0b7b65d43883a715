"""The embedded monitor as a dispatcher: logins, subscriptions, commands (docs/protocol.md §5.10, §6.2)."""

import asyncio
import errno
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.mon_server import MonAuthServer
from messenger.compat import override
from messenger.denc.entity import EntityType
from messenger.denc.features import Feature, has_feature
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault
from messenger.link import Protocol
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.config import MConfig, MGetConfig
from messenger.messages.message import Message, Payload
from messenger.messages.mgrmap import MMgrMap
from messenger.messages.mon import (
    SUBSCRIBE_ONETIME,
    MMonCommand,
    MMonCommandAck,
    MMonGetMap,
    MMonGetOSDMap,
    MMonGetVersion,
    MMonGetVersionReply,
    MMonSubscribe,
    MMonSubscribeAck,
)
from messenger.messages.monmap import MMonMap
from messenger.messages.osd import MOSDMap
from messenger.messages.pools import (
    MGetPoolStats,
    MPoolOp,
    MStatfs,
)
from messenger.randomness import RandomSource
from toolkit.embedded.mon import auth_commands, osd_commands, pool_commands, status_commands
from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError
from toolkit.embedded.mon.cluster import Cluster, Usage
from toolkit.embedded.mon.pools import pool_operation, pool_stats, statfs

__all__ = ["Monitor", "auth_commands", "osd_commands", "pool_commands", "status_commands"]

DOWN_AFTER_S = 2.0
"""An OSD without a session with the monitor for this long is marked down."""
_SUBSCRIPTION_S = 300
"""Peers without MON_STATEFUL_SUB renew their subscriptions within this time."""
_DESCRIPTIONS = "get_command_descriptions"
_REPORT = "osd report use"
"""Command with which embedded OSDs report their space usage; Ceph has no such command."""


@dataclass(slots=True, eq=False)
class _Session:
    """The monitor's state of one connection."""

    auth: MonAuthSession
    wanted: dict[str, int] = field(default_factory=dict)
    """The first epoch to send, by map."""
    onetime: set[str] = field(default_factory=set)


class Monitor(Dispatcher):
    """Answers clients and OSDs.

    Args:
        cluster: state of the cluster.
        auth: authenticates peers.
        rng: random source of challenges and session keys.
    """

    def __init__(self, cluster: Cluster, auth: MonAuthServer, rng: RandomSource) -> None:
        self.cluster = cluster
        self._auth = auth
        self._rng = rng
        self._sessions: dict[Connection, _Session] = {}
        self._osds: dict[int, Connection] = {}
        """The newest session of each OSD."""
        self._late: dict[int, asyncio.TimerHandle] = {}
        """Timers that mark OSDs without a session down."""
        self._handlers: dict[type, Callable[[Connection, Message, Any], None]] = {
            MMonGetMap: self._get_map,
            MMonSubscribe: self._subscribe,
            MMonGetVersion: self._get_version,
            MMonGetOSDMap: self._get_osdmap,
            MGetConfig: lambda connection, message, _payload: self._reply(connection, message, MConfig()),
            MMonCommand: self._command,
            MPoolOp: self._pool_op,
            MStatfs: lambda c, m, payload: self._reply(c, m, statfs(self.cluster, payload)),
            MGetPoolStats: lambda c, m, payload: self._reply(c, m, pool_stats(self.cluster, payload)),
        }

    # ---- the messenger's events

    @override
    def ms_handle_accept(self, connection: Connection) -> None:
        v1 = connection.protocol is Protocol.V1
        auth = MonAuthSession(
            self._auth,
            self._rng,
            established=None if v1 else connection.auth_result,
            features=connection.session.features,
        )
        self._sessions[connection] = _Session(auth)

    @override
    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        self._sessions.pop(connection, None)
        for osd, known in list(self._osds.items()):
            if known is connection:
                del self._osds[osd]
                loop = asyncio.get_running_loop()
                self._late[osd] = loop.call_later(DOWN_AFTER_S, self._mark_down, osd)

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        session, payload = self._sessions.get(connection), message.payload
        if session is None:
            return None
        if isinstance(payload, MAuth):
            self._login(connection, session, message, payload)
            return None
        handler = self._handlers.get(type(payload))
        if handler is not None and session.auth.result is not None:
            handler(connection, message, payload)
        return None

    def _login(self, connection: Connection, session: _Session, message: Message, payload: MAuth) -> None:
        answer = session.auth.handle(payload.protocol, payload.auth_payload, time.time())
        if answer is not None:
            reply = MAuthReply(answer.protocol, answer.result, answer.global_id, answer.payload)
            self._reply(connection, message, reply)

    @staticmethod
    def _reply(connection: Connection, message: Message, payload: Payload, data: bytes = b"") -> None:
        connection.send(Message.of(payload, data=data, tid=message.tid))

    # ---- maps

    def _get_map(self, connection: Connection, message: Message, _payload: MMonGetMap) -> None:
        self._reply(connection, message, MMonMap(self.cluster.maps.monmap))

    def _get_version(self, connection: Connection, message: Message, payload: MMonGetVersion) -> None:
        maps = self.cluster.maps
        versions = {"osdmap": (maps.osdmap.epoch, 1), "monmap": (maps.monmap.epoch, 1), "mgrmap": (1, 1)}
        version, oldest = versions.get(payload.what, (0, 0))
        self._reply(connection, message, MMonGetVersionReply(payload.handle, version, oldest))

    def _get_osdmap(self, connection: Connection, message: Message, payload: MMonGetOSDMap) -> None:
        start = 0 if payload.full_last else payload.inc_first
        maps = self.cluster.maps.osdmap_message(start, connection.session.features)
        self._reply(connection, message, maps or MOSDMap(self.cluster.maps.fsid))

    def _subscribe(self, connection: Connection, message: Message, payload: MMonSubscribe) -> None:
        session = self._sessions[connection]
        for what, subscription in payload.what.items():
            session.wanted[what] = subscription.start
            (session.onetime.add if subscription.flags & SUBSCRIBE_ONETIME else session.onetime.discard)(what)
        if not has_feature(connection.session.features, Feature.MON_STATEFUL_SUB):
            self._reply(connection, message, MMonSubscribeAck(_SUBSCRIPTION_S, self.cluster.maps.fsid))
        if "osdmap" in payload.what:
            self._register_osd(connection, session)
        self._push(connection, session)

    def publish(self) -> None:
        """Send every subscriber the maps that it does not have yet."""
        for connection, session in list(self._sessions.items()):
            self._push(connection, session)

    def _push(self, connection: Connection, session: _Session) -> None:
        maps, features = self.cluster.maps, connection.session.features
        for what, start in list(session.wanted.items()):
            payload: Payload | None = None
            epoch = start
            if what == "osdmap":
                if payload := maps.osdmap_message(start, features):
                    epoch = max([*payload.maps, *payload.incremental_maps])
            elif what == "monmap" and start <= maps.monmap.epoch:
                payload, epoch = MMonMap(maps.monmap), maps.monmap.epoch
            elif what == "mgrmap" and start <= maps.mgrmap.epoch:
                payload, epoch = MMgrMap(maps.mgrmap), maps.mgrmap.epoch
            elif what == "config" and start < 1:
                payload, epoch = MConfig(), 1
            if payload is None:
                continue
            session.wanted[what] = epoch + 1
            if what in session.onetime:
                del session.wanted[what]
            connection.send(Message.of(payload))

    # ---- OSDs

    def _register_osd(self, connection: Connection, session: _Session) -> None:
        """Mark an OSD up when it subscribes to the OSD map: by then it has logged in, and listens."""
        result = session.auth.result
        name = result.name if result is not None else None
        if name is None or name.type is not EntityType.OSD or not name.id.isdecimal():
            return
        osd, addrs = int(name.id), connection.session.peer_addrs
        if osd not in self.cluster.maps.hosts:
            return
        self._osds[osd] = connection
        if late := self._late.pop(osd, None):
            late.cancel()
        known = self.cluster.maps.osdmap.osds[osd]
        if not known.is_up or known.client_addrs != addrs:
            if known.is_up:  # it has restarted, and lost its objects
                self.cluster.maps.mark_down(osd)
            self.cluster.maps.mark_up(osd, addrs)
            self.publish()

    def _mark_down(self, osd: int) -> None:
        del self._late[osd]
        self.cluster.use.pop(osd, None)
        if self.cluster.maps.osdmap.osds[osd].is_up:
            self.cluster.maps.mark_down(osd)
            self.publish()

    def _report(self, connection: Connection, arguments: dict[str, Any]) -> Answer:
        osd = next((number for number, known in self._osds.items() if known is connection), None)
        if osd is None:
            raise CommandError(errno.EPERM, f"{_REPORT} is a command for OSDs only")
        self.cluster.use[osd] = {int(pool): Usage(*use) for pool, use in arguments["use"].items()}
        return Answer()

    # ---- commands

    def _command(self, connection: Connection, message: Message, payload: MMonCommand) -> None:
        before = self.cluster.maps.osdmap.epoch
        number, output = 0, b""
        try:
            answer = self._answer(connection, payload)
            status = answer.status
            output = answer.render(str(_arguments(payload).get("format", "plain")))
        except CommandError as error:
            number, status = -error.errno, str(error)
        epoch = self.cluster.maps.osdmap.epoch
        if epoch != before:
            self.publish()
        self._reply(connection, message, MMonCommandAck(number, status, payload.cmd, map_version=epoch), output)

    def _answer(self, connection: Connection, payload: MMonCommand) -> Answer:
        if payload.fsid.int and payload.fsid != self.cluster.maps.fsid:
            raise CommandError(errno.EPERM, f"this is cluster {self.cluster.maps.fsid}, not {payload.fsid}")
        arguments = _arguments(payload)
        if arguments.get("prefix") == _DESCRIPTIONS:
            return Answer(text=json.dumps(COMMANDS.descriptions()))
        if arguments.get("prefix") == _REPORT:
            return self._report(connection, arguments)
        return COMMANDS.run(self.cluster, arguments)

    def _pool_op(self, connection: Connection, message: Message, payload: MPoolOp) -> None:
        before = self.cluster.maps.osdmap.epoch
        reply = pool_operation(self.cluster, payload)
        if self.cluster.maps.osdmap.epoch != before:
            self.publish()
        self._reply(connection, message, reply)


def _arguments(payload: MMonCommand) -> dict[str, Any]:
    """Return the JSON object of a command.

    Raises:
        CommandError: it is not a JSON object.
    """
    try:
        arguments = json.loads("".join(payload.cmd))
    except ValueError as error:
        raise CommandError(errno.EINVAL, f"the command is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise CommandError(errno.EINVAL, "the command is not a JSON object")
    return arguments
