"""A monitor session with a monitor that talks nonsense."""

from uuid import UUID

import pytest

from messenger.cephx.exchange import ConMode
from messenger.cephx.none import NoneClient, NoneServer
from messenger.config import Config
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.denc.utime import EPOCH
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import LocalError
from messenger.messages.message import Message
from messenger.messages.mon import MMonCommand, MMonCommandAck
from messenger.messages.monmap import MonMap
from messenger.messenger import Messenger
from messenger.session.policy import STATELESS_SERVER, PolicySet
from tests.support.aio import on_loop
from toolkit.probe.monitor import MonitorSession

MONMAP = MonMap(fsid=UUID(int=1), epoch=1, last_changed=EPOCH, created=EPOCH)
CRC = Config.only_mode(ConMode.CRC)


class Answers(Dispatcher):
    """Answers every command with the same output."""

    def __init__(self, output: bytes) -> None:
        self.output = output

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        if isinstance(message.payload, MMonCommand):
            ack = MMonCommandAck(0, "", message.payload.cmd)
            connection.send(Message.of(ack, data=self.output, tid=message.tid))


@pytest.mark.parametrize("output", [b"{", b"\xff", b"[" * 100_000], ids=["cut short", "no text", "too deep"])
@on_loop
async def test_output_that_is_no_json_is_one_clear_line(output: bytes) -> None:
    monitor = Messenger(
        EntityName(EntityType.MON, 0),
        auth_server=NoneServer(),
        dispatcher=Answers(output),
        policies=PolicySet(STATELESS_SERVER),
        config=CRC,
        nonce=0,
    )
    async with monitor:
        addr = await monitor.bind()
        async with MonitorSession(addr, NoneClient(AuthName.parse("client.admin")), CRC) as session:
            with pytest.raises(LocalError, match="status: the monitor's output is not JSON"):
                await session.command(MONMAP, "status")
