"""The messenger's session with itself: messages sent on it are delivered here, in order and without a link.

Like Ceph's local connection it raises ms_handle_fast_connect and no other event. Its messages never wait for the
dispatch throttle, but take from it until the application has released them; in Ceph they take nothing. A
connection's ``mark_down`` leaves it open; in Ceph it stops.
"""

from copy import copy
from typing import TYPE_CHECKING

from messenger.denc.address import BLANK
from messenger.denc.features import ALL_FEATURES
from messenger.messages.message import Message
from messenger.session.policy import Policy
from messenger.session.queue import OutQueue
from messenger.session.session import Session
from messenger.session.states import Change

if TYPE_CHECKING:
    from messenger.core import Core

LOOPBACK = Policy("loopback")
LOOPBACK_ID = 0
"""Session id of the loopback session; ids of other sessions are larger."""


class LocalQueue(OutQueue):
    """A queue that delivers each message instead of queueing it."""

    __slots__ = ("_core", "_session")

    def __init__(self, core: "Core", session: Session) -> None:
        super().__init__()
        self._core = core
        self._session = session

    def push(self, message: Message) -> None:
        """Deliver a copy of a message; as on the wire, the sender's object does not change."""
        session = self._session
        session.out_seq += 1
        session.in_seq = session.acked_seq = session.out_seq
        delivered = copy(message)
        delivered.seq = session.out_seq
        self._core.deliver_local(session, delivered)


def loopback_session(core: "Core") -> Session:
    """Create a loopback session, which is READY from the start."""
    session = Session(LOOPBACK_ID, core.name.type, core.addrs, BLANK, LOOPBACK)
    session.local = True
    session.peer_name = core.name
    session.features = ALL_FEATURES
    session.change(Change.OPEN)
    session.queue = LocalQueue(core, session)
    return session
