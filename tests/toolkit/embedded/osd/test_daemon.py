"""Requests that an embedded OSD keeps until it has the map of their client."""

from typing import cast

import pytest

from messenger.cephx.none import NoneClient
from messenger.denc.entity import AuthName, EntityType
from messenger.driver import Connection
from messenger.messages.osd_objects import ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import operation
from messenger.messages.osd_operations import OpCode
from tests.support.aio import on_loop
from toolkit.embedded.osd import daemon
from toolkit.embedded.osd.daemon import MOST_WAITING, Osd

EPOCH = 1_000_000
"""Epoch of a map that the OSD never gets."""


class Client:
    """A client's connection."""

    peer_type = EntityType.CLIENT

    def __init__(self, osd: Osd) -> None:
        self._osd = osd
        self.is_ended = False

    def mark_down(self) -> None:
        self.is_ended = True

    def write(self, count: int, size_bytes: int = 1) -> None:
        """Send writes by a map that is newer than the OSD's."""
        ops = [operation(OpCode.WRITEFULL, bytes(size_bytes))]
        for tid in range(count):
            request = MOSDOp(ShardedPgId(PgId(1, 0)), 0, EPOCH, 0, ObjectLocator(1), "x", ops)
            self._osd.ms_dispatch(cast(Connection, self), request.message(tid))


@pytest.fixture
def osd() -> Osd:
    return Osd(0, NoneClient(AuthName.parse("osd.0")), None, [])


@on_loop
async def test_a_client_with_too_many_waiting_requests_is_ended(osd: Osd) -> None:
    client, other = Client(osd), Client(osd)
    client.write(MOST_WAITING)
    other.write(1)
    assert not client.is_ended
    client.write(1)
    assert (client.is_ended, other.is_ended) == (True, False)
    again = Client(osd)
    again.write(MOST_WAITING)
    assert not again.is_ended


@on_loop
async def test_a_client_with_too_large_waiting_requests_is_ended(
    osd: Osd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "MOST_WAITING_BYTES", 1 << 20)
    client, other = Client(osd), Client(osd)
    client.write(3, 300_000)
    other.write(1, 300_000)
    assert not client.is_ended
    client.write(1, 300_000)
    assert (client.is_ended, other.is_ended) == (True, False)
