"""A RADOS client whose messenger records its messages."""

from messenger.cephx.client import CephxClient
from messenger.cephx.none import NoneClient
from messenger.compat import override
from messenger.config import Config
from messenger.connection import Connection
from messenger.messages.message import Message
from messenger.messenger import Messenger
from toolkit.node.live_random import LiveRandom
from toolkit.node.recording_messenger import RecordingMessenger, Records, Write
from toolkit.rados.client import Rados
from toolkit.rados.node.spec import RadosSpec


class RecordingClient(Rados):
    """A client that writes history records.

    Call :meth:`Rados.connect`, then :meth:`become`.
    """

    spec: RadosSpec
    _records: Records

    def become(self, spec: RadosSpec, write: Write) -> None:
        """Set the node's spec and the function that takes its records."""
        self.spec = spec
        self._records = Records(spec, spec.names, write)

    @property
    def messenger(self) -> Messenger:
        """The client's messenger, while it is connected."""
        return self._messenger

    @override
    def make_messenger(self, auth: CephxClient | NoneClient, config: Config | None) -> Messenger:
        spec = self.spec
        messenger = RecordingMessenger(
            auth_client=auth,
            dispatcher=self,
            config=config,
            rng=LiveRandom(f"{spec.seed} {spec.name} {spec.incarnation}"),
            route=spec.route,
            trace=self._records.trace,
        )
        messenger.records = self._records
        return messenger

    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        """Record a message, then process it."""
        self._records.delivered(self._messenger, connection, message)
        super().ms_dispatch(connection, message)
