"""The host on which handshakes run: what links and handshakes use of a messenger.

:class:`messenger.core.Core` fills it in; :class:`messenger.endpoint.Endpoint` adds the inputs of applications.
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
    """This messenger: name, addresses, authentication."""
    policies: PolicySet
    """What a fault means, per type of peer."""
    registry: Registry
    numbers: Numbers
    rng: RandomSource

    # ---- handshakes

    @abstractmethod
    def internal_delay(self, link: Link, go_on: Step, now: float, *, learning: bool = False) -> None:
        """Go on with a handshake at a point where Ceph would provoke a race, if need be after a pause.

        See docs/protocol.md §7.2.
        """

    @abstractmethod
    def log_keys(self, link: Link, auth_payload: Buffer, result: AuthResult | None) -> None:
        """A link has authenticated; ``auth_payload`` is the acceptor's last word in that."""

    @abstractmethod
    def refused_peer(self, link: Link, error: PeerError, now: float) -> None:
        """A peer was refused, for what it is or what it lacks; it may try again on the same link."""

    @abstractmethod
    def trace_decision(
        self, link: Link, existing: Session | None, decision: Decision | V1Decision, now: float
    ) -> None:
        """Record the decision on an incoming link against an existing session, and its reason."""

    # ---- sessions with the same peer

    @abstractmethod
    def end_other_protocol(self, addrs: AddrVec, protocol: Protocol, now: float) -> None:
        """A peer dials by ``protocol``: a session with it by the other protocol ends (§9 item 28)."""

    @abstractmethod
    def yield_to(self, peer: EntityName, auth_name: AuthName | None, addrs: AddrVec, now: float) -> None:
        """End the sessions under a peer's addresses that are with another peer, as far as they yield to it.

        Raises:
            PeerError: PEER_IDENTITY, one of them does not.
        """

    @abstractmethod
    def end_doubles(self, session: Session, addrs: AddrVec, num: int, now: float) -> None:
        """Close sessions under other addresses of the peer, now that ``session`` has all of them."""

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
        """A fresh session, which is not registered yet; ``accepted`` if the peer has dialled."""

    @abstractmethod
    def open_session(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """Make a session READY on its link, raise the event and start traffic."""

    @abstractmethod
    def open_announced(self, session: Session, link: Link, now: float) -> None:
        """The answer to the peer is written, and the accept event was emitted before: traffic may flow (§4.9)."""

    @abstractmethod
    def set_ready(self, session: Session, link: Link, kind: EventKind, now: float) -> None:
        """A session is READY as far as this side can decide; with v1, its link may not be open yet (§3.4)."""

    @abstractmethod
    def open_link(self, session: Session, link: Link, now: float) -> None:
        """Both sides know that the session is open: traffic may flow."""

    @abstractmethod
    def take_over(self, session: Session, link: Link, then: Step, now: float, *, resets: bool = False) -> None:
        """An incoming link takes the place of whatever link or dial the session had (§4.9, reuse).

        Args:
            session: whose.
            link: the new one.
            then: what follows once nothing of the old link comes any more.
            now: monotonic seconds.
            resets: ``then`` resets the session, so what an injector still delays of it is dropped.
        """

    @abstractmethod
    def reset_session(self, session: Session, why: str, now: float) -> None:
        """The peer lost its state: drop everything of the old session and raise remote_reset (§4.9).

        Repeated resets before the session is open raise one event, unless messages are lost again.
        """

    @abstractmethod
    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session and raise its reset event."""

    @abstractmethod
    def change_session(self, session: Session, change: Change, why: str, now: float) -> None:
        """Carry out a change of a session's state, for the reason given."""

    @abstractmethod
    def session_event(self, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        """Raise an event of a session, unless the application has never heard of the session."""

    @abstractmethod
    def send_keepalive(self, session: Session, now: float) -> None:
        """Send a keepalive; ``session.keepalive_acked_s`` shows its answer."""
