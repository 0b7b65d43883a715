"""What a session uses of the link that carries it."""

from typing import Protocol

from messenger.cephx.exchange import AuthResult, ConMode
from messenger.errors import Fault
from messenger.session.session import Session


class Carrier(Protocol):
    """A link as its session sees it; messenger/link.py is the one there is."""

    id: int
    connector: bool
    open: bool
    """Messages may flow."""
    paused: bool
    """Nothing is read."""
    con_mode: ConMode
    auth_result: AuthResult | None
    unwritten_bytes: int
    rx_offset: int
    """Bytes read so far."""
    read_since_s: float
    """When reading last went on after a pause."""

    @property
    def host(self) -> object:
        """Where the link runs at present."""

    @property
    def held(self) -> bool:
        """True if an interceptor holds the link."""

    def flush(self, session: Session, now: float) -> None:
        """Write all that is due.

        Raises:
            PeerError: nothing more can be written.
        """

    def broken_by(self, error: Exception, now: float) -> None:
        """A step of the conversation raised ``error``: break the link."""

    def break_off(self, fault: Fault, now: float) -> None:
        """The link breaks; the session does what its policy says."""

    def close(self, fault: Fault, now: float) -> None:
        """Close the link without a word to the session."""
