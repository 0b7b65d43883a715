"""An inbox that is read from the wrong place; test_messenger.py has its proper use."""

import asyncio
import threading

import pytest

from messenger.errors import LocalError
from messenger.inbox import Inbox
from tests.support.aio import connected, messenger, on_loop, until
from tests.support.node import numbered


@on_loop
async def test_message_stays_in_an_inbox_that_is_read_from_another_loop() -> None:
    inbox = Inbox()
    async with messenger(1, auth="none") as client, messenger(2, inbox, auth="none") as server:
        (await connected(client, server)).send(numbered(1))
        await until(lambda: len(inbox) == 1)
        with pytest.raises(LocalError, match="another thread than the messenger's"):
            await asyncio.to_thread(asyncio.run, inbox.get(5))
        assert (await inbox.get(5))[1].tid == 1


@on_loop
async def test_reader_that_waits_on_another_loop_gets_an_error_and_no_message() -> None:
    inbox, waits = Inbox(), threading.Event()

    async def read() -> None:
        asyncio.get_running_loop().call_soon(waits.set)  # runs once the reader waits
        await inbox.get(25)

    async with messenger(1, auth="none") as client, messenger(2, inbox, auth="none") as server:
        connection = await connected(client, server)
        stranger = asyncio.create_task(asyncio.to_thread(asyncio.run, read()))
        await asyncio.to_thread(waits.wait)
        connection.send(numbered(1))
        with pytest.raises(LocalError, match="read on the event loop of its messenger"):
            await stranger
        assert (await inbox.get(5))[1].tid == 1
