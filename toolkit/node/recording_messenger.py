"""A messenger that records its messages in the history of its node, for programs with one messenger."""

from collections.abc import Callable, Mapping
from typing import Any

from messenger.compat import override
from messenger.connection import Connection
from messenger.messages.message import Message, Payload
from messenger.messenger import Connection as LiveConnection
from messenger.messenger import Messenger
from messenger.outputs import TraceRecord
from toolkit.node.message_records import message_fields
from toolkit.node.program import ProgramSpec

Write = Callable[[float, str, dict[str, Any]], None]
"""Takes a history record: time in seconds since the run began, kind, fields."""


class Records:
    """The records of one node, with names for links and peers.

    Args:
        spec: spec of the node.
        names: names of nodes by their address vectors.
        write: takes the records.
    """

    def __init__(self, spec: ProgramSpec, names: Mapping[str, str], write: Write) -> None:
        self._spec = spec
        self._names = names
        self._write = write

    def name_of(self, connection: Connection) -> str:
        """Return the name of a peer; its addresses if it has none."""
        return self._named(str(connection.session.peer_addrs))

    def sent(self, messenger: Messenger, connection: Connection, message: Message) -> None:
        """Record a message that is about to be sent."""
        # before the session is ready its features are unknown; the endpoint uses the same default
        message.encode_front(connection.session.features or messenger.endpoint.config.features_supported)
        self._message(messenger, "send", connection, {"tid": message.tid}, message)

    def delivered(self, messenger: Messenger, connection: Connection, message: Message) -> None:
        """Record a message that is dispatched."""
        self._message(messenger, "deliver", connection, {"tid": message.tid, "seq": message.seq}, message)

    def trace(self, record: TraceRecord) -> None:
        """Write a record of the messenger, with names for links and peers."""
        fields = record.fields  # ours from here on
        if "link" in fields:
            restarts = "" if self._spec.incarnation == 1 else f".{self._spec.incarnation}"
            fields["link"] = f"{self._spec.name}{restarts}/{fields['link']}"
        if "session" in fields and "peer" in fields:
            fields["peer"] = self._named(str(fields["peer"]))
        self._put(record.time_s, record.kind, fields)

    def _message(
        self, messenger: Messenger, kind: str, connection: Connection, numbers: dict[str, int], message: Message
    ) -> None:
        fields = message_fields(connection, self.name_of(connection), numbers, message)
        self._put(messenger.moment_s, kind, fields)

    def _named(self, addrs: str) -> str:
        return self._names.get(addrs, addrs)

    def _put(self, time_s: float, kind: str, fields: dict[str, Any]) -> None:
        self._write(time_s - self._spec.start_s, kind, fields)


class _RecordingConnection(LiveConnection):
    """A connection that records what is sent."""

    @override
    def send(self, message: Message | Payload) -> bool:
        message = message if isinstance(message, Message) else Message.of(message)
        messenger = self._driver
        assert isinstance(messenger, RecordingMessenger)
        messenger.records.sent(messenger, self, message)
        return super().send(message)


class RecordingMessenger(Messenger):
    """A messenger that records what is sent; :attr:`records` has to be set after its creation."""

    connection_class = _RecordingConnection
    records: Records
