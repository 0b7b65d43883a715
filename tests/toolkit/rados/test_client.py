"""The RADOS client without a cluster: how it ends."""

import asyncio

import pytest

from tests.support.aio import on_loop
from toolkit.rados.client import Rados


class Alone(Rados):
    """A client that does not wait for its monitor."""

    async def _wait_until_ready(self) -> None:
        pass


@on_loop
async def test_client_whose_end_is_cancelled_closes_its_messenger() -> None:
    client = Alone.connect("v2:127.0.0.1:1/0")
    await client.__aenter__()
    ending = asyncio.ensure_future(client.__aexit__(None, None, None))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert client._messenger.endpoint.is_shut
