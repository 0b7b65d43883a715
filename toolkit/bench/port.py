"""Connects the traffic to the messenger: its public interface, with cephx and full session logic, untraced."""

from contextlib import AsyncExitStack

from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.messages.message import Message
from messenger.messenger import Messenger
from toolkit.bench.identity import (
    MESSAGE_TYPE,
    RECEIVER,
    RECEIVER_POLICIES,
    SENDER,
    SENDER_POLICIES,
    auth_client,
    auth_server,
)
from toolkit.bench.spec import HOST, PeerSpec

_CONNECT_TIMEOUT_S = 20.0


class MessengerPort(Dispatcher):
    """One end of a lossless session."""

    def __init__(self, spec: PeerSpec) -> None:
        self._spec = spec
        self.traffic = spec.traffic(self._send)
        self._payload = spec.payload
        self._connection: Connection | None = None

    async def open(self, stack: AsyncExitStack) -> str:
        """Connect, or listen; return the receiver's address.

        Raises:
            FaultError: the receiver refused.
            TimeoutError: the receiver did not answer.
        """
        messenger = await stack.enter_async_context(_messenger(self._spec, self))
        if self._spec.sends:
            await messenger.connect(self._spec.addr, RECEIVER.type).ready(_CONNECT_TIMEOUT_S)
            return self._spec.addr
        return str(await messenger.bind(HOST, protocol=self._spec.cell.protocol))

    def ms_handle_connect(self, connection: Connection) -> None:
        """Keep the connection to the receiver."""
        self._connection = connection

    def ms_handle_accept(self, connection: Connection) -> None:
        """Keep the connection from the sender."""
        self._connection = connection

    def ms_dispatch(self, connection: Connection, message: Message) -> None:  # noqa: ARG002 - only counted
        """Count a message."""
        self.traffic.seen(1)

    def _send(self, count: int) -> None:
        assert self._connection is not None
        for _ in range(count):
            self._connection.send(Message(MESSAGE_TYPE, data=self._payload))


def _messenger(spec: PeerSpec, port: MessengerPort) -> Messenger:
    key = CryptoKey.from_base64(spec.key)
    config = Config.only_mode(ConMode[spec.cell.mode.upper()], **spec.options)
    if spec.sends:
        return Messenger(
            SENDER, auth_client=auth_client(key), dispatcher=port, policies=SENDER_POLICIES, config=config
        )
    return Messenger(
        RECEIVER, auth_server=auth_server(key), dispatcher=port, policies=RECEIVER_POLICIES, config=config
    )
