"""The RADOS client without a cluster: its beginning, its end, and careless use."""

import asyncio
import errno

import pytest

from messenger.errors import LocalError
from tests.support.aio import on_loop
from toolkit.cephfs.client import FsClient
from toolkit.rados.client import Rados
from toolkit.rados.errors import RadosError

NOWHERE = "v2:127.0.0.1:1/0"


class Alone(Rados):
    """A client that does not wait for its monitor."""

    async def _wait_until_ready(self) -> None:
        pass


class FsAlone(Alone, FsClient):
    """The same of a file system."""


async def cancelled(work: "asyncio.Future[object]") -> None:
    """Cancel a task at its first wait."""
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


@on_loop
async def test_client_whose_end_is_cancelled_closes_its_messenger() -> None:
    client = Alone.connect(NOWHERE)
    await client.__aenter__()
    await cancelled(asyncio.ensure_future(client.__aexit__(None, None, None)))
    assert client._messenger.endpoint.is_shut


@on_loop
async def test_client_of_a_file_system_whose_beginning_is_cancelled_closes_its_messenger() -> None:
    client = FsAlone.connect(NOWHERE)
    await cancelled(asyncio.ensure_future(client.__aenter__()))
    assert client._messenger.endpoint.is_shut


@on_loop
async def test_client_that_is_not_connected_or_is_already_says_so() -> None:
    client = Alone.connect(NOWHERE)
    with pytest.raises(LocalError, match="not connected: use it in 'async with"):
        client.pool("objects")
    with pytest.raises(LocalError, match="not connected"):
        await client.command({"prefix": "status"})
    async with client:
        with pytest.raises(LocalError, match="connected already"):
            await client.__aenter__()
    async with client:
        client.pool("objects")


@on_loop
async def test_question_to_the_monitors_after_the_end_is_refused() -> None:
    async with Alone.connect(NOWHERE) as client:
        pass
    with pytest.raises(RadosError, match="ESHUTDOWN"):
        await client.wait_for_newest_map()


@on_loop
async def test_client_that_reaches_no_monitor_says_why() -> None:
    client = Rados.connect(NOWHERE, timeout_s=0.2)
    with pytest.raises(RadosError, match=r"127.0.0.1:1/0, last failure: connection refused .*ETIMEDOUT") as caught:
        await client.__aenter__()
    assert caught.value.errno == errno.ETIMEDOUT
