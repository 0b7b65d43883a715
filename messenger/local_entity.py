"""This messenger as its peers see it: its name, its addresses, and how it authenticates."""

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
    """One messenger's own side of every handshake.

    Args:
        name: its entity name.
        addrs: its addresses; the IP may be blank.
        config: options.
        rng: randomness of its authentications.
        auth_client: how it authenticates to peers; None if it cannot dial.
        auth_server: how peers authenticate to it; None if it cannot accept.
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
        """Those of the addresses that are bound to every IP of this host."""

    # ---- addresses

    def learned_addr(self, seen: EntityAddr) -> None:
        """An own IP became known: it replaces the blank one (docs/protocol.md §3.2)."""
        if not seen.is_blank_ip and any(addr.is_blank_ip for addr in self.addrs):
            self._wildcards |= {_port(addr) for addr in self.addrs if addr.is_blank_ip and addr.port}
            self.addrs = _with_ip(self.addrs, seen)

    def addrs_on(self, local_addr: EntityAddr) -> AddrVec:
        """The addresses for the peer of a link whose own end is ``local_addr``.

        Those that are not bound to one IP have the IP of the link.
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
        """True if the peer of such a link means this messenger by ``addr``, also by another network."""
        return addr in self.addrs or addr in self.addrs_on(local_addr)

    # ---- authentication

    def connection_modes(self, peer: EntityType, *, connecting: bool) -> tuple[ConMode, ...]:
        """The connection modes to offer to, or to allow, a type of peer."""
        return self._config.connection_modes(self.name.type, peer, connecting=connecting)

    def client_exchange(self, peer: EntityType, wall_time_s: float) -> ClientExchange:
        """A new authentication towards a peer.

        Raises:
            AuthError: a session that a peer had opened is to be dialled again, without credentials to do so.
        """
        return self._client().exchange(peer, wall_time_s, self._rng)

    def connect_exchange(self, peer: EntityType, wall_time_s: float) -> ClientExchange:
        """A new authentication in CONNECTs of v1: none at all towards monitors; raises AuthError as the other."""
        return connect_exchange(self._client(), self.name.type, peer, wall_time_s, self._rng)

    def _client(self) -> AuthClient:
        if self.auth_client is None:
            raise AuthError(FaultReason.AUTH_DENIED, "this messenger has no credentials to connect with")
        return self.auth_client

    def server_exchange(self, peer: EntityType, wall_time_s: float) -> ServerExchange:
        """A new authentication of a peer."""
        assert self.auth_server is not None
        return self.auth_server.exchange(peer, wall_time_s, self._rng)
