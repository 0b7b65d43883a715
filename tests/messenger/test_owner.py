"""Calls from another thread, another event loop and a forked child."""

import asyncio
import os
import signal
import threading
import warnings
from collections.abc import Callable

import pytest

from messenger.denc.entity import EntityType
from messenger.dispatch import Dispatcher
from messenger.driver import Connection as CoreConnection
from messenger.errors import LocalError
from messenger.inbox import Inbox
from messenger.messages.message import Message
from messenger.messenger import Connection, Messenger
from messenger.session.session import SessionState
from tests.support.aio import connected, messenger, on_loop, until
from tests.support.node import numbered

Call = Callable[[Messenger, CoreConnection, Message], object]
CALLS: dict[str, Call] = {
    "send": lambda _messenger, connection, _message: connection.send(numbered(9)),
    "connect": lambda messenger, _connection, _message: messenger.connect("v2:127.0.0.1:1", EntityType.OSD),
    "loopback": lambda messenger, _connection, _message: messenger.loopback,
    "mark_down": lambda _messenger, connection, _message: connection.mark_down(),
    "mark_down_all": lambda messenger, _connection, _message: messenger.mark_down_all(),
    "mark_disposable": lambda _messenger, connection, _message: connection.mark_disposable(),
    "begin_shutdown": lambda _messenger, connection, _message: connection.begin_shutdown(),
    "keepalive": lambda _messenger, connection, _message: connection.keepalive(),
    "keep_alive": lambda _messenger, connection, _message: connection.keep_alive(),
    "wake": lambda _messenger, connection, _message: connection.wake(),
    "release": lambda _messenger, connection, message: connection.release(message),
    "configure": lambda messenger, _connection, _message: messenger.configure(ms_max_backoff=7.0),
    "dispatcher": lambda messenger, _connection, _message: messenger.add_dispatcher_head(Dispatcher()),
    "unblock": lambda messenger, _connection, _message: messenger.unblock(1),
    "pump": lambda messenger, _connection, _message: messenger.pump(),
}


def error_of(call: Callable[[], object]) -> str:
    """The LocalError that a call raises; other exceptions escape."""
    try:
        return f"none, but {call()!r}"
    except LocalError as error:
        return str(error)


class Meanwhile(Dispatcher):
    """Makes a call in another thread while the messenger is busy with a message."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.messenger: Messenger
        self.errors: list[str] = []
        self.tids: list[int] = []

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:
        self.tids.append(message.tid)
        if len(self.tids) == 1:
            call = lambda: self._call(self.messenger, connection, message)  # noqa: E731
            thread = threading.Thread(target=lambda: self.errors.append(error_of(call)))
            thread.start()
            thread.join()


@pytest.mark.parametrize("call", CALLS)
@on_loop
async def test_call_from_another_thread_during_a_callback_is_refused_and_changes_nothing(call: str) -> None:
    meanwhile = Meanwhile(CALLS[call])
    async with messenger(1, auth="none") as client, messenger(2, meanwhile, auth="none") as server:
        meanwhile.messenger = server
        connection = await connected(client, server)
        connection.send(numbered(1))
        connection.send(numbered(2))
        await until(lambda: len(meanwhile.tids) == 2)
        (accepted,) = server.connections.values()
        assert meanwhile.errors == [
            "called from another thread than the messenger's: use loop.call_soon_threadsafe"
        ]
        assert (accepted.state, accepted.session.disposable) == (SessionState.READY, False)
        assert server.endpoint.config.ms_max_backoff == 15.0
        assert accepted.send(numbered(3))


def test_call_on_another_loop_of_the_same_thread_is_refused() -> None:
    loop = asyncio.new_event_loop()

    async def begin() -> tuple[Messenger, Messenger, Connection]:
        client, server = messenger(1, auth="none"), messenger(2, auth="none")
        return client, server, await connected(client, server)

    async def elsewhere() -> bool:
        return connection.send(numbered(1))

    async def end() -> None:
        await client.shutdown()
        await server.shutdown()

    client, server, connection = loop.run_until_complete(begin())
    try:
        with pytest.raises(LocalError, match="called on another event loop than the messenger's"):
            asyncio.run(elsewhere())
        assert connection.send(numbered(2)), "between two runs of the messenger's own loop"
        assert connection.session.queue
    finally:
        loop.run_until_complete(end())
        loop.close()


def forked(what: Callable[[], str]) -> tuple[int, str]:
    """Run a function in a forked child that lives until :func:`end`. Returns its pid and the function's result."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the process has threads
        pid = os.fork()
    if not pid:
        try:
            os.write(writing, what().encode())
        finally:
            os.close(writing)
            signal.pause()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        return pid, answer.read()


def end(pid: int) -> None:
    """Kill a forked child."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@on_loop
async def test_forked_child_may_not_call_and_keeps_nothing_open() -> None:
    inbox = Inbox()
    async with messenger(1, auth="none") as client, messenger(2, inbox, auth="none") as server:
        connection = await connected(client, server)
        message = numbered(9)
        calls = [lambda call=call: call(client, connection, message) for call in CALLS.values()]
        pid, errors = forked(lambda: "\n".join({error_of(call) for call in calls[:8]}))
        try:
            assert errors == "called from a forked child: the messenger lives in its parent; make a new one here"
            connection.send(numbered(1))
            assert (await inbox.get(5))[1].tid == 1
            (accepted,) = server.connections.values()
            await client.shutdown()
            await until(lambda: accepted.state is not SessionState.READY)
        finally:
            end(pid)
