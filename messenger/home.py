"""The host on which handshakes run: the interface of a messenger that links and handshakes use.

:class:`messenger.core.Core` implements it; :class:`messenger.endpoint.Endpoint` adds the application's inputs.
"""

from abc import abstractmethod

from messenger.cephx.exchange import AuthResult
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import Fault, PeerError
from messenger.host import LinkHost
from messenger.link import Link, Step
from messenger.local_entity import LocalEntity
from messenger.protocols import Protocol
from messenger.randomness import RandomSource
from messenger.session.events import EventKind
from messenger.session.existing import Decision
from messenger.session.numbers import Numbers
from messenger.session.policy import Policy, PolicySet
from messenger.session.registry import Registry
from messenger.session.session import Session
from messenger.session.states import Change
from messenger.v1.existing import Decision as V1Decision


class Home(LinkHost):
    """The home shard of one messenger, as links and handshakes see it."""

    me: LocalEntity
    """This messenger's name, addresses and authentication."""
    policies: PolicySet
    """What a session does after a fault, by the peer's entity type."""
    registry: Registry
    numbers: Numbers
    rng: RandomSource

    # ---- handshakes

    @abstractmethod
    def internal_delay(self, link: Link, go_on: Step, now: float, *, learning: bool = False) -> None:
        """Call ``go_on`` at a point where Ceph can provoke a race, after an injected delay if there is one.

        See docs/protocol.md §7.2.
        """

    @abstractmethod
    def log_keys(self, link: Link, auth_payload: Buffer, result: AuthResult | None) -> None:
        """Log the keys of an authenticated link; ``auth_payload`` is the acceptor's last one."""

    @abstractmethod
    def refused_peer(self, link: Link, error: PeerError, now: float) -> None:
        """Record that a peer was refused for its type or features; it may try again on the same link."""

    @abstractmethod
    def trace_decision(
        self, link: Link, existing: Session | None, decision: Decision | V1Decision, now: float
    ) -> None:
        """Record the decision on an incoming link against an existing session, and its reason."""

    # ---- sessions with the same peer

    @abstractmethod
    def end_other_protocol(self, addrs: AddrVec, protocol: Protocol, now: float) -> None:
        """End sessions with a peer by the other protocol, because it dials by ``protocol`` (§9 item 28)."""

    @abstractmethod
    def yield_to(self, peer: EntityName, auth_name: AuthName | None, addrs: AddrVec, now: float) -> None:
        """End sessions that are registered under ``addrs`` but belong to another peer, if they yield to this peer.

        Raises:
            PeerError: PEER_IDENTITY: one of these sessions does not yield.
        """

    @abstractmethod
    def end_doubles(self, session: Session, addrs: AddrVec, num: int, now: float) -> None:
        """Close other sessions with the same peer under addresses that ``session`` now has."""

    # ---- the life of a session

    @abstractmethod
    def new_session(
        self,
        peer_type: EntityType,
        addrs: AddrVec,
        target: EntityAddr,
        policy: Policy,
        *,
        accepted: bool = False,
    ) -> Session:
        """Create a session without registering it; ``accepted`` if the peer has dialled."""

    @abstractmethod
    def open_session(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """Make a session READY on its link, raise the event and start the data phase."""

    @abstractmethod
    def open_announced(self, session: Session, link: Link, now: float) -> None:
        """Start the data phase after the answer was written; the accept event was raised before it (§4.9)."""

    @abstractmethod
    def set_ready(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """Make a session READY on this side; with v1, its link may not be open yet (§3.4)."""

    @abstractmethod
    def open_link(self, session: Session, link: Link, now: float) -> None:
        """Start the data phase on a link, because both sides regard the session as open."""

    @abstractmethod
    def take_over(self, session: Session, link: Link, then: Step, now: float, *, resets: bool = False) -> None:
        """Replace the link or dial of a session by an incoming link (§4.9, reuse).

        Args:
            session: the session that gets the link.
            link: the new link.
            then: next step, called once the old link can deliver nothing more.
            now: monotonic seconds.
            resets: True if ``then`` resets the session, so messages that an injector delays are dropped.
        """

    @abstractmethod
    def reset_session(self, session: Session, why: str, now: float) -> None:
        """Drop all state of a session that the peer has lost, and raise the remote_reset event (§4.9).

        Repeated resets before the session opens raise only one event, unless messages are dropped again.
        """

    @abstractmethod
    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session and raise its reset event."""

    @abstractmethod
    def change_session(self, session: Session, change: Change, why: str, now: float) -> None:
        """Apply a change to the session's state and record it with the reason ``why``."""

    @abstractmethod
    def session_event(self, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        """Raise an event of a session; a reset only if the application knows the session."""

    @abstractmethod
    def send_keepalive(self, session: Session, now: float) -> None:
        """Send a keepalive; ``session.keepalive_acked_s`` shows when the peer has acknowledged it."""
