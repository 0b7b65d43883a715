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
from messenger.denc.codec import Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import Feature, has_feature
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault
from messenger.link import Protocol
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.command import MCommand, MCommandReply
from messenger.messages.config import MConfig, MGetConfig
from messenger.messages.log import LogPriority, MLog
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
from messenger.messages.osdmap import MapFlag
from messenger.messages.ping import MPing
from messenger.messages.pools import (
    MGetPoolStats,
    MPoolOp,
    MStatfs,
)
from messenger.randomness import RandomSource
from toolkit.embedded.mon import (
    auth_commands,
    blocklist,
    config_commands,
    config_history,
    daemon_commands,
    inventory,
    log_commands,
    modules,
    osd_commands,
    osd_states,
    pg_commands,
    pool_commands,
    pool_options,
    scrub_commands,
    space_commands,
    status_commands,
    store_commands,
)
from toolkit.embedded.mon.answers import COMMANDS, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.log import LEVELS
from toolkit.embedded.mon.manager import parse_command, run_command, run_told
from toolkit.embedded.mon.pools import pool_operation, pool_stats, statfs
from toolkit.embedded.usage import GroupState, parse_pgid

_COMMANDS = (
    *(auth_commands, blocklist, daemon_commands, osd_commands, osd_states, pg_commands, pool_commands),
    *(
        config_commands,
        config_history,
        inventory,
        log_commands,
        modules,
        pool_options,
        space_commands,
        status_commands,
    ),
    *(scrub_commands, store_commands),
)
"""The modules that register commands."""

DOWN_AFTER_S = 2.0
"""An OSD without a session with the monitor for this long is marked down."""
UP_AGAIN_AFTER_S = 1.0
"""An OSD with a session that a command has marked down is up again after this long."""
_LOGS = {f"log-{name}": level for name, level in LEVELS.items()}
"""Severities of log entries by what subscribers want."""
_SUBSCRIPTION_S = 300
"""Peers without MON_STATEFUL_SUB renew their subscriptions within this time."""
_REPORT = "osd report groups"
"""Command with which embedded OSDs report their placement groups; Ceph has no such command."""


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
        self._returning: dict[int, asyncio.TimerHandle] = {}
        """Timers that mark OSDs with a session up."""
        cluster.send_to_osd = self._send_to_osd
        self._observer = log_commands.Observer(cluster)
        self._expiry: asyncio.TimerHandle | None = None
        """Ends the time of a client on the blocklist."""
        self._handlers: dict[type, Callable[[Connection, Message, Any], None]] = {
            MMonGetMap: self._get_map,
            MMonSubscribe: self._subscribe,
            MMonGetVersion: self._get_version,
            MMonGetOSDMap: self._get_osdmap,
            MGetConfig: self._get_config,
            MMonCommand: self._command,
            MCommand: self._tell,
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
        if isinstance(payload, MPing):
            self._ping(connection, message)  # also of clients without a login
            return None
        handler = self._handlers.get(type(payload))
        if handler is not None and session.auth.result is not None:
            handler(connection, message, payload)
        return None

    def _login(self, connection: Connection, session: _Session, message: Message, payload: MAuth) -> None:
        is_new = session.auth.result is None
        answer = session.auth.handle(payload.protocol, payload.auth_payload, time.time())
        if answer is not None:
            is_new = is_new and session.auth.result is not None
            if is_new and payload.monmap_epoch < self.cluster.maps.monmap.epoch:
                # a client that is logged in knows the monitors' names: "ceph tell mon.NAME" needs them at once
                connection.send(MMonMap(self.cluster.maps.monmap))
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
        versions = {
            "osdmap": (maps.osdmap.epoch, 1),
            "monmap": (maps.monmap.epoch, 1),
            "mgrmap": (maps.mgrmap.epoch, 1),
        }
        version, oldest = versions.get(payload.what, (0, 0))
        self._reply(connection, message, MMonGetVersionReply(payload.handle, version, oldest))

    def _get_osdmap(self, connection: Connection, message: Message, payload: MMonGetOSDMap) -> None:
        start = 0 if payload.full_last else payload.inc_first
        maps = self.cluster.maps.osdmap_message(start, connection.session.features)
        self._reply(connection, message, maps or MOSDMap(self.cluster.maps.fsid))

    def _subscribe(self, connection: Connection, message: Message, payload: MMonSubscribe) -> None:
        session = self._sessions[connection]
        for what, subscription in payload.what.items():
            first_log = self.cluster.log.version if what in _LOGS else 0  # what is in the log already is not sent
            session.wanted[what] = subscription.start or first_log
            (session.onetime.add if subscription.flags & SUBSCRIBE_ONETIME else session.onetime.discard)(what)
        if not has_feature(connection.session.features, Feature.MON_STATEFUL_SUB):
            self._reply(connection, message, MMonSubscribeAck(_SUBSCRIPTION_S, self.cluster.maps.fsid))
        if "osdmap" in payload.what:
            self._register_osd(connection, session)
        self._push(connection, session)

    def publish(self) -> None:
        """Send every subscriber the maps and log entries that it does not have yet."""
        self._observer.look()
        self.cluster.note_groups()
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
            elif what in _LOGS:
                payload, epoch = self._log_entries(_LOGS[what], start)
            elif what == "config" and start <= self.cluster.options_version:
                payload, epoch = self._options(session), self.cluster.options_version
            if payload is None:
                continue
            session.wanted[what] = epoch + 1
            if what in session.onetime:
                del session.wanted[what]
            connection.send(Message.of(payload))

    def _log_entries(self, level: LogPriority, start: int) -> tuple[MLog | None, int]:
        """Return the log entries for a subscriber, if there are any, and the newest version."""
        log = self.cluster.log
        entries = log.since(start, level) if start < log.version else []
        message = MLog(self.cluster.maps.fsid, entries, map_version=log.version - 1)
        return message if entries else None, log.version - 1

    def _get_config(self, connection: Connection, message: Message, _payload: MGetConfig) -> None:
        self._reply(connection, message, self._options(self._sessions[connection]))

    def _options(self, session: _Session) -> MConfig:
        """Return the options of a session's client; embedded daemons have others."""
        name = session.auth.result.name if session.auth.result is not None else None
        if name is None or name.type is not EntityType.CLIENT:
            return MConfig()
        return MConfig(config_commands.options_for(self.cluster, name))

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
        if known.is_up and known.client_addrs != addrs:  # it has restarted, and lost its objects
            self.cluster.maps.mark_down(osd)
        self._mark_up(osd)

    def _mark_up(self, osd: int) -> None:
        """Mark an OSD up that has a session, unless the flag ``noup`` is set."""
        self._returning.pop(osd, None)
        osdmap, connection = self.cluster.maps.osdmap, self._osds.get(osd)
        if connection is None or osdmap.osds[osd].is_up or osdmap.flags & MapFlag.NOUP:
            return
        self.cluster.maps.mark_up(osd, connection.session.peer_addrs)
        self.publish()

    def _bring_back(self) -> None:
        """Mark the OSDs up soon that have a session, but are down by a command or were so by the flag ``noup``."""
        osdmap = self.cluster.maps.osdmap
        for osd in self._osds:
            if not osdmap.osds[osd].is_up and osd not in self._returning and not osdmap.flags & MapFlag.NOUP:
                loop = asyncio.get_running_loop()
                self._returning[osd] = loop.call_later(UP_AGAIN_AFTER_S, self._mark_up, osd)

    def _mark_down(self, osd: int) -> None:
        del self._late[osd]
        if self.cluster.maps.osdmap.flags & MapFlag.NODOWN:
            self._late[osd] = asyncio.get_running_loop().call_later(DOWN_AFTER_S, self._mark_down, osd)
            return
        self.cluster.reported.pop(osd, None)
        if self.cluster.maps.osdmap.osds[osd].is_up:
            self.cluster.maps.mark_down(osd)
            self.publish()

    def _send_to_osd(self, osd: int, payload: Payload) -> bool:
        connection = self._osds.get(osd)
        if connection is None:
            return False
        connection.send(Message.of(payload))
        return True

    def _report(self, connection: Connection, arguments: dict[str, Any]) -> None:
        osd = next((number for number, known in self._osds.items() if known is connection), None)
        if osd is None:
            raise CommandError(errno.EPERM, f"{_REPORT} is a command for OSDs only")
        self.cluster.reports[osd] = int(arguments["epoch"]), self.cluster.reports.get(osd, (0, 0))[1] + 1
        states = ((parse_pgid(name), GroupState.from_value(state)) for name, state in arguments["groups"].items())
        self.cluster.reported[osd] = {pgid: state for pgid, state in states if pgid is not None}
        pool_options.apply_quotas(self.cluster)

    # ---- commands

    def _command(self, connection: Connection, message: Message, payload: MMonCommand) -> None:
        before = self._versions()
        number, status, output = self._answer(connection, payload, bytes(message.data))
        epoch = self.cluster.maps.osdmap.epoch
        if self._versions() != before:
            self.publish()
            self._expire_blocklist()
            self._bring_back()
        self._reply(connection, message, MMonCommandAck(number, status, payload.cmd, map_version=epoch), output)

    def _versions(self) -> tuple[int, ...]:
        return self.cluster.maps.osdmap.epoch, self.cluster.options_version, self.cluster.log.version

    def _answer(self, connection: Connection, payload: MMonCommand, given: bytes) -> tuple[int, str, bytes]:
        try:
            if payload.fsid.int and payload.fsid != self.cluster.maps.fsid:
                raise CommandError(errno.EPERM, f"this is cluster {self.cluster.maps.fsid}, not {payload.fsid}")
            if (arguments := parse_command(payload.cmd)).get("prefix") == _REPORT:
                self._report(connection, arguments)
                return 0, "", b""
        except CommandError as error:
            return -error.errno, str(error), b""
        return run_command(self.cluster, payload.cmd, given)

    def _expire_blocklist(self) -> None:
        """Remove the clients whose time on the blocklist is over, now and when the next one's is."""
        before = self.cluster.maps.osdmap.epoch
        next_s = blocklist.expire(self.cluster)
        if self.cluster.maps.osdmap.epoch != before:
            self.publish()
        if self._expiry is not None:
            self._expiry.cancel()
        loop = asyncio.get_running_loop()
        self._expiry = None if next_s is None else loop.call_later(next_s, self._expire_blocklist)

    def _tell(self, connection: Connection, message: Message, payload: MCommand) -> None:
        """Answer a command for this monitor, and no other one: ``ceph tell mon.NAME``."""
        number, status, output = run_told(self.cluster, payload.cmd, bytes(message.data))
        self._reply(connection, message, MCommandReply(number, status), output)

    def _ping(self, connection: Connection, message: Message) -> None:
        described = {name: COMMANDS.run(self.cluster, {"prefix": name}).value for name in ("health", "mon_status")}
        encoder = Encoder()
        encoder.string(json.dumps(described))
        self._reply(connection, message, MPing(encoder.getvalue()))

    def _pool_op(self, connection: Connection, message: Message, payload: MPoolOp) -> None:
        before = self.cluster.maps.osdmap.epoch
        reply = pool_operation(self.cluster, payload)
        if self.cluster.maps.osdmap.epoch != before:
            self.publish()
        self._reply(connection, message, reply)
