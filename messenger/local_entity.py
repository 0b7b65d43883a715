"""This messenger as its peers see it: name, addresses, authentication."""

from messenger.cephx.exchange import AuthClient, AuthServer, ClientExchange, ConMode, ServerExchange
from messenger.cephx.v1 import connect_exchange
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import AuthError, FaultReason
from messenger.randomness import RandomSource

_Port = tuple[AddressType, int, int]
"""Type, port and nonce of an address."""


def _port(addr: EntityAddr) -> _Port:
    return addr.type, addr.port, addr.nonce


def _with_ip(addrs: AddrVec, seen: EntityAddr) -> AddrVec:
    return AddrVec(tuple(addr.with_ip_of(seen) if addr.is_blank_ip else addr for addr in addrs))


class LocalEntity:
    """One messenger's identity in every handshake.

    Args:
        name: its entity name.
        addrs: its addresses; the IP may be blank.
        config: options.
        rng: source of random numbers for authentication.
        auth_client: authenticates to peers; None if the messenger cannot dial.
        auth_server: authenticates peers; None if the messenger cannot accept.
    """

    def __init__(
        self,
        name: EntityName,
        addrs: AddrVec,
        config: Config,
        rng: RandomSource,
        auth_client: AuthClient | None,
        auth_server: AuthServer | None,
    ) -> None:
        self.name = name
        self.addrs = addrs
        self._config = config
        self._rng = rng
        self.auth_client = auth_client
        self.auth_server = auth_server
        self._wildcards: frozenset[_Port] = frozenset()
        """Addresses that are bound to every IP address of this host."""

    # ---- addresses

    def learned_addr(self, seen: EntityAddr) -> None:
        """Replace a blank IP address of this messenger by the one just learned (docs/protocol.md §3.2)."""
        if not seen.is_blank_ip and any(addr.is_blank_ip for addr in self.addrs):
            self._wildcards |= {_port(addr) for addr in self.addrs if addr.is_blank_ip and addr.port}
            self.addrs = _with_ip(self.addrs, seen)

    def addrs_on(self, local_addr: EntityAddr) -> AddrVec:
        """The addresses to announce on a link whose local address is ``local_addr``.

        Addresses that are bound to every IP address of the host get the IP address of the link.
        """
        if local_addr.is_blank_ip:
            return self.addrs
        return AddrVec(
            tuple(
                addr.with_ip_of(local_addr) if addr.is_blank_ip or _port(addr) in self._wildcards else addr
                for addr in self.addrs
            )
        )

    def is_own(self, addr: EntityAddr, local_addr: EntityAddr) -> bool:
        """True if ``addr`` is an address of this messenger for the peer of such a link."""
        return addr in self.addrs or addr in self.addrs_on(local_addr)

    # ---- authentication

    def connection_modes(self, peer: EntityType, *, connecting: bool) -> tuple[ConMode, ...]:
        """The connection modes to offer to, or to allow, a type of peer."""
        return self._config.connection_modes(self.name.type, peer, connecting=connecting)

    def client_exchange(self, peer: EntityType, wall_time_s: float) -> ClientExchange:
        """A new authentication to a peer.

        Raises:
            AuthError: this messenger has no credentials; an accepted session that has to dial gets this.
        """
        return self._client().exchange(peer, wall_time_s, self._rng)

    def connect_exchange(self, peer: EntityType, wall_time_s: float) -> ClientExchange:
        """A new authentication for CONNECTs of v1, empty for monitors; raises as :meth:`client_exchange`."""
        return connect_exchange(self._client(), self.name.type, peer, wall_time_s, self._rng)

    def _client(self) -> AuthClient:
        if self.auth_client is None:
            raise AuthError(FaultReason.AUTH_DENIED, "this messenger has no credentials to connect with")
        return self.auth_client

    def server_exchange(self, peer: EntityType, wall_time_s: float) -> ServerExchange:
        """A new authentication of a peer."""
        assert self.auth_server is not None
        return self.auth_server.exchange(peer, wall_time_s, self._rng)
