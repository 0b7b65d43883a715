"""The sessions of one messenger, by id and by the addresses of their peers."""

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import NEW_ENTITY_NUM, EntityName, EntityType
from messenger.protocols import Protocol
from messenger.session.policy import Policy
from messenger.session.session import Session
from messenger.session.states import SessionState

_Place = tuple[bytes, int, int]
"""IP, port and nonce: an address without its type, which depends on the protocol."""


class Registry:
    """Sessions that are not closed. Registered ones can be found by their peer's addresses."""

    def __init__(self) -> None:
        self.sessions: dict[int, Session] = {}
        """All sessions by id, oldest first; unregistered ones included."""
        self._by_addrs: dict[AddrVec, Session] = {}
        self._by_place: dict[_Place, Session] = {}
        self._last_id = 0

    def __len__(self) -> int:
        """Number of registered sessions."""
        return len(self._by_addrs)

    @property
    def registered(self) -> dict[AddrVec, Session]:
        """The registered sessions, by the addresses of their peers."""
        return dict(self._by_addrs)

    def new(
        self, peer_type: EntityType, addrs: AddrVec, target: EntityAddr, policy: Policy, *, accepted: bool
    ) -> Session:
        """Create a session without registering it; ``accepted`` if the peer has dialled."""
        self._last_id += 1
        session = Session(self._last_id, peer_type, addrs, target, policy)
        if accepted:
            session.state = SessionState.ESTABLISHING
        self.sessions[session.id] = session
        return session

    def remove(self, session: Session) -> None:
        """Remove a session that has closed."""
        self._unregister(session)
        self.sessions.pop(session.id, None)

    def lookup(self, addrs: AddrVec) -> Session | None:
        """The registered session with the peer that has exactly these addresses."""
        return self._by_addrs.get(addrs)

    def find(self, addrs: AddrVec) -> Session | None:
        """The registered session with the peer that has one of these addresses, since a peer has one session."""
        return self.lookup(addrs) or next(filter(None, map(self.lookup_place, addrs)), None)

    def lookup_place(self, addr: EntityAddr) -> Session | None:
        """The registered session with a peer that has this address, of whatever type, among its own."""
        return self._by_place.get((addr.ip, addr.port, addr.nonce))

    def at(self, addrs: AddrVec) -> list[Session]:
        """All registered sessions with a peer that has one of these addresses, without duplicates."""
        found = {session.id: session for addr in addrs if (session := self.lookup_place(addr)) is not None}
        return list(found.values())

    def of_other_protocol(self, addrs: AddrVec, protocol: Protocol) -> list[Session]:
        """The sessions with a peer of these addresses that use the other protocol than ``protocol``."""
        return [session for session in self.at(addrs) if Protocol.of(session.target_addr) is not protocol]

    def doubles(self, session: Session, addrs: AddrVec, num: int) -> list[Session]:
        """Other sessions with the same peer, under addresses that ``session`` now has.

        Only those with the same type and, if known, the same number: a peer may announce any address.
        """
        if session.anonymous:
            return []
        return [
            double
            for double in self.at(addrs)
            if double is not session
            and double.peer_type is session.peer_type
            and double.peer_name.num in {num, NEW_ENTITY_NUM}
        ]

    def register(self, session: Session) -> None:
        """Make a session findable by its peer's addresses."""
        self._by_addrs[session.peer_addrs] = session
        for addr in session.peer_addrs:
            self._by_place[addr.ip, addr.port, addr.nonce] = session

    def _unregister(self, session: Session) -> None:
        if self._by_addrs.get(session.peer_addrs) is session:
            del self._by_addrs[session.peer_addrs]
        for addr in session.peer_addrs:
            if self.lookup_place(addr) is session:
                del self._by_place[addr.ip, addr.port, addr.nonce]

    def rename_peer(self, session: Session, addrs: AddrVec, num: int) -> None:
        """Record the addresses and number that the peer announced, and register the session under all of them."""
        registered = self._by_addrs.get(session.peer_addrs) is session
        renamed = addrs != session.peer_addrs
        if registered and renamed:
            self._unregister(session)
        session.peer_addrs = addrs
        session.peer_name = EntityName(session.peer_type, num)
        if registered and renamed and addrs not in self._by_addrs:
            self.register(session)
