"""The interface of a link that its session uses."""

from typing import Protocol

from messenger.cephx.exchange import AuthResult, ConMode
from messenger.errors import Fault
from messenger.session.session import Session


class Carrier(Protocol):
    """A link as its session sees it; messenger/link.py implements it."""

    id: int
    connector: bool
    open: bool
    """True in the data phase: messages may flow."""
    paused: bool
    """True while nothing is read."""
    con_mode: ConMode
    auth_result: AuthResult | None
    unwritten_bytes: int
    rx_offset: int
    """Number of bytes read so far."""
    read_since_s: float
    """Time at which reading last resumed after a pause."""

    @property
    def host(self) -> object:
        """The host on which the link runs now."""

    @property
    def held(self) -> bool:
        """True if an interceptor holds the link."""

    def flush(self, session: Session, now: float) -> None:
        """Write all frames that are due.

        Raises:
            PeerError: nothing more can be written.
        """

    def broken_by(self, error: Exception, now: float) -> None:
        """Fault the link, because one of its steps raised ``error``."""

    def break_off(self, fault: Fault, now: float) -> None:
        """Fault the link; the session reacts according to its policy."""

    def close(self, fault: Fault, now: float) -> None:
        """Close the link without notifying its session."""
