"""A RADOS client whose messenger writes down what happens."""

import hashlib
from collections.abc import Callable
from typing import Any

from messenger.cephx.client import CephxClient
from messenger.cephx.none import NoneClient
from messenger.config import Config
from messenger.connection import Connection as CoreConnection
from messenger.denc.address import EntityAddr
from messenger.messages.message import Message, Payload
from messenger.messenger import Connection, Messenger
from messenger.outputs import TraceRecord
from toolkit.rados.client import Rados
from toolkit.rados.node.spec import RadosSpec
from toolkit.randomness import LiveRandom

Write = Callable[[float, str, dict[str, Any]], None]
"""Takes a history record: time in seconds since the run began, kind, fields."""


class RecordingConnection(Connection):
    """A connection that has what is sent written down."""

    def send(self, message: Message | Payload) -> bool:
        """See :meth:`messenger.connection.Connection.send`."""
        message = message if isinstance(message, Message) else Message.of(message)
        message.encode_front(self.session.features)
        messenger = self._driver
        assert isinstance(messenger, RecordingMessenger)
        messenger.client.record_message("send", self, {"tid": message.tid}, message)
        return super().send(message)


class RecordingMessenger(Messenger):
    """A messenger with such connections."""

    connection_class = RecordingConnection
    client: "RecordingClient"


class RecordingClient(Rados):
    """A client with a history.

    Made by :meth:`Rados.connect`, then told what it is by :meth:`become`.
    """

    spec: RadosSpec
    _write: Write

    def become(self, spec: RadosSpec, write: Write) -> None:
        """Be this node, and write records there."""
        self.spec = spec
        self._write = write

    @property
    def messenger(self) -> Messenger:
        """Its messenger, while it is connected."""
        return self._messenger

    def make_messenger(self, auth: CephxClient | NoneClient, config: Config | None) -> Messenger:
        """See :class:`Rados`."""
        spec = self.spec
        messenger = RecordingMessenger(
            auth_client=auth,
            dispatcher=self,
            config=config,
            rng=LiveRandom(f"{spec.seed} {spec.name} {spec.incarnation}"),
            route=self._way_to,
            trace=self._trace,
        )
        messenger.client = self
        return messenger

    def _way_to(self, addr: EntityAddr) -> tuple[str, int]:
        direct = f"{addr.host}:{addr.port}"
        host, _, port = self.spec.routes.get(direct, direct).rpartition(":")
        return host, int(port)

    def ms_dispatch(self, connection: CoreConnection, message: Message) -> None:
        """Write a message down, then hand it to whom it concerns."""
        self.record_message("deliver", connection, {"tid": message.tid, "seq": message.seq}, message)
        super().ms_dispatch(connection, message)

    def record_message(
        self, kind: str, connection: CoreConnection, numbers: dict[str, int], message: Message
    ) -> None:
        """Write down a message that is sent or delivered."""
        digest = hashlib.blake2b(message.data, digest_size=8)
        if len(message.front) or len(message.middle):
            digest.update(b"front")
            digest.update(message.front)
            digest.update(b"middle")
            digest.update(message.middle)
        fields = {
            "session": connection.session.id,
            "peer": self._name_of(str(connection.session.peer_addrs)),
            **numbers,
            "digest": digest.hexdigest(),
            "size": message.size_bytes,
            "priority": message.priority,
            "type": message.type,
            "version": message.version,
        }
        self._put(self.messenger.moment_s, kind, fields)

    def _trace(self, record: TraceRecord) -> None:
        fields = record.fields
        if "link" in fields:
            restarts = "" if self.spec.incarnation == 1 else f".{self.spec.incarnation}"
            fields["link"] = f"{self.spec.name}{restarts}/{fields['link']}"
        if "session" in fields and "peer" in fields:
            fields["peer"] = self._name_of(str(fields["peer"]))
        self._put(record.time_s, record.kind, fields)

    def _name_of(self, addrs: str) -> str:
        """The name of a node where its address is known; monitors have certain ones."""
        return self.spec.names.get(addrs, addrs)

    def _put(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        self._write(time_s - self.spec.start_s, kind, fields)
