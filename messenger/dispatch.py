"""How an application receives messages and session events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from messenger.messages.message import Message

if TYPE_CHECKING:
    from messenger.driver import Connection
    from messenger.errors import Fault


class Dispatcher:
    """Callbacks of a messenger, under Ceph's names; override those of interest.

    They run inside the event loop: return quickly. Sending from inside one is the quickest way to reply.
    """

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        """A message has arrived.

        Return True to keep it: its bytes count against ``ms_dispatch_throttle_bytes`` until
        ``connection.release(message)``. Otherwise it counts as done on return.
        """

    def ms_handle_connect(self, connection: Connection) -> None:
        """A session this side dialled is open, for the first time or again."""

    def ms_handle_accept(self, connection: Connection) -> None:
        """A session the peer dialled is open, for the first time or again."""

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        """The session ended; what was queued is gone."""

    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:
        """The peer lost its state; what was sent and queued is gone, the session goes on."""

    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        """The peer refused; the session keeps trying until it is marked down."""
