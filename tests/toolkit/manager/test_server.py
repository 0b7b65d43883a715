"""Sessions of made-up daemons: what they report, how they end, and what is refused."""

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from messenger.cephx.none import NoneClient
from messenger.compat import override
from messenger.connection import Connection
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.dispatch import Dispatcher
from messenger.messages.command import MCommand, MCommandReply, MMgrCommand, MMgrCommandReply
from messenger.messages.message import Message, Payload
from messenger.messages.mgr import (
    MMgrClose,
    MMgrConfigure,
    MMgrOpen,
    MMgrReport,
    PerfCounterType,
    ServiceDaemon,
)
from messenger.messages.pg_stats import MPGStats
from messenger.messenger import Messenger
from messenger.session.policy import LOSSY_CLIENT
from tests.support.aio import on_loop, until
from toolkit.manager import server as module
from toolkit.manager.daemon import Daemon
from toolkit.manager.server import DaemonServer

FSID = UUID(int=7)


class Recorder(Dispatcher):
    """Keeps what the manager sends, and counts the ends of sessions."""

    def __init__(self) -> None:
        self.payloads: list[Payload] = []
        self.messages: list[Message] = []
        self.resets = 0

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        self.messages.append(message)
        if message.payload is not None:
            self.payloads.append(message.payload)

    @override
    def ms_handle_reset(self, *_: object) -> None:
        self.resets += 1


class Scene:
    """A server without authentication, and peers that connect to it."""

    def __init__(self) -> None:
        self.daemons: dict[str, Daemon] = {}
        self.opened: list[str] = []
        self.server = DaemonServer(
            4100,
            None,
            None,
            self.daemons,
            lambda: MMgrConfigure(7, 5),
            lambda daemon: self.opened.append(daemon.name),
            lambda: None,
        )
        self._peers: list[Messenger] = []

    async def connect(self, kind: EntityType = EntityType.OSD) -> tuple[Connection, Recorder]:
        recorder = Recorder()
        identity = NoneClient(AuthName(kind, "0"))
        self._peers.append(Messenger(EntityName(kind, 0), auth_client=identity, dispatcher=recorder))
        connection = self._peers[-1].connect(self.server.addrs, EntityType.MGR, LOSSY_CLIENT)
        return await connection.ready(10), recorder

    async def end(self) -> None:
        for peer in self._peers:
            await peer.shutdown()
        await self.server.stop()


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    await made.server.listen("[v2:127.0.0.1:0/0,v1:127.0.0.1:0/0]")
    try:
        yield made
    finally:
        await made.end()


@on_loop
async def test_a_daemon_opens_reports_and_closes() -> None:
    async with scene() as here:
        daemon, recorder = await here.connect()
        daemon.send(MMgrOpen("3", config=b"options"))
        await until(lambda: recorder.payloads)
        assert recorder.payloads == [MMgrConfigure(7, 5)]
        known = here.daemons["osd.3"]
        assert (here.opened, known.is_open, known.config) == (["osd.3"], True, b"options")
        daemon.send(MMgrReport("3", daemon_status={"state": "idle"}))
        daemon.send(MPGStats(FSID))
        await until(lambda: known.pg_reports)
        assert (known.reports, known.status, known.osd_stat) == (1, {"state": "idle"}, MPGStats(FSID).osd_stat)
        daemon.send(MMgrClose("3"))
        await until(lambda: len(recorder.payloads) == 2)
        assert recorder.payloads[1] == MMgrClose("3"), "a daemon waits for its own message before it ends"
        assert [event.what for event in known.events] == ["open", "closed"]


@on_loop
async def test_a_service_has_its_own_name_and_metadata() -> None:
    async with scene() as here:
        client, recorder = await here.connect(EntityType.CLIENT)
        client.send(MMgrOpen("4711", "rgw", ServiceDaemon({"zone": "z"}, {"up": "yes"})))
        await until(lambda: recorder.payloads)
        known = here.daemons["rgw.4711"]
        assert (known.metadata, known.status) == ({"zone": "z"}, {"up": "yes"})
        client.mark_down()
        await until(lambda: not known.is_open)
        assert [event.what for event in known.events] == ["open", "lost"]


@on_loop
async def test_a_second_session_takes_the_place_of_the_first() -> None:
    async with scene() as here:
        first, _ = await here.connect()
        first.send(MMgrOpen("3"))
        await until(lambda: here.daemons)
        second, recorder = await here.connect()
        second.send(MMgrOpen("3"))
        await until(lambda: recorder.payloads)
        first.mark_down()
        second.send(MMgrReport("3"))
        known = here.daemons["osd.3"]
        await until(lambda: known.reports)
        assert known.is_open
        here.server.cut(known)
        await until(lambda: recorder.resets)
        assert (known.times("open"), known.times("lost"), known.times("cut")) == (2, 0, 1)


@pytest.mark.parametrize(
    ("command", "reply"), [(MCommand, MCommandReply), (MMgrCommand, MMgrCommandReply)], ids=["tell", "cli"]
)
@on_loop
async def test_a_command_is_refused_with_a_reason(
    command: type[MCommand], reply: Callable[[int, str], Payload]
) -> None:
    async with scene() as here:
        client, recorder = await here.connect(EntityType.CLIENT)
        client.send(Message.of(command(FSID, ['{"prefix": "pg dump"}']), tid=9))
        await until(lambda: recorder.messages)
        assert recorder.messages[0].tid == 9
        assert recorder.payloads == [
            reply(-errno.EOPNOTSUPP, "this is msgrlab's manager, which carries out no commands")
        ]
        assert here.server.commands == ['{"prefix": "pg dump"}']


@on_loop
async def test_reports_without_a_session_and_malformed_ones_close_the_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scene() as here:
        early, recorder = await here.connect()
        early.send(MMgrReport("3"))
        await until(lambda: recorder.resets)
        assert here.daemons == {}
        daemon, recorder = await here.connect()
        daemon.send(MMgrOpen("3"))
        daemon.send(MMgrReport("3", declare_types=[PerfCounterType("osd.op")], packed=bytes(6)))
        await until(lambda: recorder.resets)
        assert [event.what for event in here.daemons["osd.3"].events] == ["open", "bad_message"]
        monkeypatch.setattr(module, "MOST_DAEMONS", 1)
        another, recorder = await here.connect()
        another.send(MMgrOpen("4"))
        await until(lambda: recorder.resets)
        assert list(here.daemons) == ["osd.3"]
