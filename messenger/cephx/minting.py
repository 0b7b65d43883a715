"""Authentication with self-made tickets, as monitors do among each other (docs/protocol.md §5.7).

The holder of a service's key can create tickets for it, so two peers that share a key can authenticate to each
other by cephx without a monitor.
"""

from collections.abc import Mapping

from messenger.cephx.authorizer_exchange import AuthorizerExchange
from messenger.cephx.exchange import ClientExchange
from messenger.cephx.refusal import Refusal
from messenger.cephx.tickets import ServiceKey, Ticket, mint_ticket
from messenger.denc.entity import AuthName, EntityType
from messenger.randomness import RandomSource


class MintingClient:
    """An entity that creates its own tickets, a new one for each exchange.

    A monitor among monitors is ``MintingClient(AuthName(EntityType.MON, ""), 0, {EntityType.MON:
    ServiceKey(NAMED_KEY_SECRET_ID, key_of_mon)})``.

    Args:
        name: the entity that the tickets name.
        global_id: global_id of ``name``.
        service_keys: the key that seals the tickets, by the type of the peer.
        caps: capabilities that the tickets grant.
        validity_s: lifetime of a ticket in seconds.

    Raises:
        LocalError: a key of an unsupported type.
    """

    def __init__(
        self,
        name: AuthName,
        global_id: int,
        service_keys: Mapping[EntityType, ServiceKey],
        *,
        caps: str = "allow *",
        validity_s: float = 3600.0,
    ) -> None:
        self.name = name
        self.global_id = global_id
        self.use_keys(service_keys)
        self._caps = caps
        self._validity_s = validity_s

    def use_keys(self, service_keys: Mapping[EntityType, ServiceKey]) -> None:
        """Seal tickets with these keys from now on, for example after a rotation.

        Raises:
            LocalError: a key of an unsupported type.
        """
        for service, service_key in service_keys.items():
            service_key.key.require_usable(f"service key of {service.label}")
        self._service_keys = dict(service_keys)

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        """A new exchange with a peer of that type."""
        return AuthorizerExchange(self, peer_type, wall_time_s, rng)

    def ticket_for(self, service: EntityType, wall_time_s: float, rng: RandomSource) -> Ticket:
        """Create a ticket for ``service``.

        Raises:
            RefusedError: NO_TICKET: there is no key for this service.
        """
        service_key = self._service_keys.get(service)
        if service_key is None:
            held = ", ".join(held.label for held in sorted(self._service_keys)) or "none"
            detail = f"{self.name} has no service key to make tickets for {service.label}; it holds: {held}"
            raise Refusal.NO_TICKET.error(detail)
        grant = mint_ticket(
            service_key,
            service,
            self.name,
            self.global_id,
            caps=self._caps,
            validity_s=self._validity_s,
            wall_time_s=wall_time_s,
            rng=rng,
        )
        return Ticket.received(grant, wall_time_s)

    def ticket_refused(self, ticket: Ticket) -> None:
        """Do nothing: every exchange creates its own ticket."""
