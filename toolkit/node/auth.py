"""Authentication of a node: by a key that all nodes share, or by monitors among them.

Fields of :attr:`NodeSpec.auth`, as JSON values, all optional:

* ``methods``: cephx and none, those that it offers and accepts, the preferred one first. ``offers`` and ``allows``
  are the same for one side only.
* ``secrets``: service keys by secret_id that decrypt tickets here, in their text form; ``mints``: secret_id,
  ``key`` and ``validity_s`` of the tickets that it makes itself, and whether it ``keeps`` them until they are
  rejected or due for renewal, as tickets of monitors are. The lab's shared key is used for both by default.
* ``login``: it logs in at monitors as ``name`` with ``key``, and uses their tickets. A daemon also gets its
  service keys from them, which live for ``service_ttl_s``.
* ``entities``: it is a monitor, and these are its entities: name -> ``key``, ``caps`` by service, and optionally a
  ``pending_key``. All monitors of a lab have the same service keys. ``allowed``: ciphers that it accepts from
  entities; ``service_cipher``; ``auth_ttl_s`` and ``service_ttl_s`` of tickets; ``cluster_required`` and
  ``service_required``: methods; ``insecure_reclaim``; ``ready``: it is in the quorum; ``first_global_id``.

Defects of its authorizers are set while it runs, see :class:`Spoiler`.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from messenger.cephx.authorizer import Authorizer, build_authorizer
from messenger.cephx.authorizer_exchange import AuthorizerExchange, TicketSource
from messenger.cephx.ciphers import CIPHERS, KeyType, KeyUsage, wrap
from messenger.cephx.client import CLIENT_SERVICES, CephxClient
from messenger.cephx.exchange import AuthClient, AuthMethod, AuthServer, ClientExchange
from messenger.cephx.key_server import CipherPolicy, KeyServer, Principal
from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.mon_server import MonAuthServer
from messenger.cephx.negotiation import ClientAuth, ServerAuth
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.rotating import DAEMONS_WITH_ROTATING_KEYS, DEFAULT_SERVICE_TTL_S, RotatingKeyring
from messenger.cephx.service import CephxService
from messenger.cephx.structures import AuthMode, Authorize, TicketBlob
from messenger.cephx.tickets import ServiceKey, Ticket
from messenger.compat import override
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import encoded
from messenger.errors import LocalError
from messenger.randomness import RandomSource

if TYPE_CHECKING:
    from toolkit.node.spec import NodeSpec

SERVICE_SECRET_ID = 1
"""Secret id of the shared key, where there is no monitor."""
_VERSION_AT = 2
"""Offset of the proof's version in a request, after the request's number."""
_FIELDS = frozenset(
    {
        *("methods", "offers", "allows", "secrets", "mints", "login", "entities", "allowed", "service_cipher"),
        *("auth_ttl_s", "service_ttl_s", "cluster_required", "service_required", "insecure_reclaim", "ready"),
        "first_global_id",
    }
)


class Spoiler:
    """Defects in the authorizers and login requests of a node; none by default.

    Keys for authorizers, which go to services: ``ticket`` is byte and mask of the bits to flip in the sealed
    ticket, ``authorizer`` the same in the whole authorizer, ``envelope`` the same in the plaintext of its
    encrypted part; ``answer`` is added to the answer to a challenge, ``silent`` leaves it out; ``global_id`` is
    added to the claimed one; ``keep_bytes`` truncates the authorizer to that size, ``extra_bytes`` appends as many
    zeros.

    Keys for requests to monitors: ``claim`` is added to the global_id that the node reclaims, ``old_ticket`` is
    ``none`` or ``forged`` and replaces the ticket that proves it, and ``version`` is that of its request.
    """

    def __init__(self) -> None:
        self.what: dict[str, Any] = {}

    def build(self, ticket: Ticket, global_id: int, authorize: Authorize, rng: RandomSource) -> bytes:
        """Return the authorizer that presents a ticket, with the defects."""
        what = self.what
        if "ticket" in what:
            ticket = replace(
                ticket, blob=TicketBlob(ticket.blob.secret_id, _flipped(ticket.blob.blob, what["ticket"]))
            )
        if authorize.have_challenge and "answer" in what:
            answer = (authorize.server_challenge_plus_one + what["answer"]) % (1 << 64)
            authorize = replace(authorize, server_challenge_plus_one=answer)
        if authorize.have_challenge and what.get("silent"):
            authorize = Authorize(authorize.nonce)
        claimed_id = global_id + what.get("global_id", 0)
        if "envelope" in what:
            payload = _with_envelope(ticket, claimed_id, authorize, what["envelope"], rng)
        else:
            payload = build_authorizer(ticket, claimed_id, authorize, rng)
        if "authorizer" in what:
            payload = _flipped(payload, what["authorizer"])
        return payload[: what.get("keep_bytes", len(payload))] + bytes(what.get("extra_bytes", 0))

    def old_ticket(self, ticket: Ticket | None) -> Ticket | None:
        """Return the ticket that is sent to prove a global_id."""
        how = self.what.get("old_ticket", "")
        if ticket is None or how == "none":
            return None
        if how == "forged":
            return replace(ticket, blob=TicketBlob(ticket.blob.secret_id, _flipped(ticket.blob.blob, (40, 1))))
        return ticket


def _flipped(raw: bytes, place: tuple[int, int]) -> bytes:
    """Flip bits of one byte; the index may be negative, and is taken modulo the length."""
    byte, mask = place
    changed = bytearray(raw)
    changed[byte % len(raw)] ^= mask
    return bytes(changed)


def _with_envelope(
    ticket: Ticket, global_id: int, authorize: Authorize, place: tuple[int, int], rng: RandomSource
) -> bytes:
    """Do as :func:`build_authorizer`, but flip bits in the plaintext before it is encrypted."""
    key = ticket.session_key
    plaintext = _flipped(wrap(encoded(authorize)), place)
    sealed = CIPHERS[key.type].encrypt(key.secret, KeyUsage.AUTHORIZE, plaintext, rng)
    return bytes([AuthMode.AUTHORIZER]) + encoded(Authorizer(global_id, ticket.service, ticket.blob, sealed))


class _SpoiltExchange(AuthorizerExchange):
    """An exchange with a service, with the defects of a spoiler."""

    def __init__(
        self, source: TicketSource, service: EntityType, wall_time_s: float, rng: RandomSource, spoiler: Spoiler
    ) -> None:
        super().__init__(source, service, wall_time_s, rng)
        self._spoiler = spoiler

    def _authorizer(self, authorize: Authorize) -> bytes:
        return self._spoiler.build(self._current_ticket(), self._global_id, authorize, self._rng)


class _Client(CephxClient):
    """An entity with its own key, that logs in at monitors."""

    def __init__(self, name: AuthName, key: CryptoKey, wanted_services: int, spoiler: Spoiler) -> None:
        self._spoiler = spoiler
        super().__init__(name, key, wanted_services)

    @property
    @override
    def global_id(self) -> int:
        """The global_id, or the one that the client claims instead."""
        return self._global_id + self._spoiler.what.get("claim", 0) if self._global_id else 0

    @global_id.setter
    def global_id(self, value: int) -> None:
        self._global_id = value

    @override
    def prove(self, server_challenge: int, old_ticket: Ticket | None, other_keys: int, rng: RandomSource) -> bytes:
        proof = super().prove(server_challenge, self._spoiler.old_ticket(old_ticket), other_keys, rng)
        version = self._spoiler.what.get("version")
        return proof if version is None else proof[:_VERSION_AT] + bytes([version]) + proof[_VERSION_AT + 1 :]

    @override
    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        if peer_type is EntityType.MON:
            return super().exchange(peer_type, wall_time_s, rng)
        return _SpoiltExchange(self, peer_type, wall_time_s, rng, self._spoiler)


class _Minting(MintingClient):
    """An entity that makes its own tickets: a new one for each exchange, unless it keeps them."""

    def __init__(
        self,
        name: AuthName,
        global_id: int,
        service_keys: Mapping[EntityType, ServiceKey],
        spoiler: Spoiler,
        *,
        validity_s: float,
        keeps: bool,
    ) -> None:
        super().__init__(name, global_id, service_keys, validity_s=validity_s)
        self._spoiler = spoiler
        self._keeps = keeps
        self._kept: dict[EntityType, Ticket] = {}

    @override
    def ticket_for(self, service: EntityType, wall_time_s: float, rng: RandomSource) -> Ticket:
        ticket = self._kept.get(service)
        if ticket is None or wall_time_s >= ticket.renew_after_s:
            ticket = super().ticket_for(service, wall_time_s, rng)
            if self._keeps:
                self._kept[service] = ticket
        return ticket

    @override
    def ticket_refused(self, ticket: Ticket) -> None:
        if self._kept.get(ticket.service) is ticket:
            del self._kept[ticket.service]

    @override
    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> ClientExchange:
        return _SpoiltExchange(self, peer_type, wall_time_s, rng, self._spoiler)


class Credentials:
    """Authenticates one node to others, and others to it; made anew for each incarnation.

    Args:
        spec: spec of the node.

    Raises:
        LocalError: ``spec.auth`` has an unknown field or an invalid value.
    """

    def __init__(self, spec: "NodeSpec") -> None:
        unknown = spec.auth.keys() - _FIELDS
        if unknown:
            raise LocalError(
                f"node auth: unknown {', '.join(sorted(unknown))}; known: {', '.join(sorted(_FIELDS))}"
            )
        self._auth: Mapping[str, Any] = spec.auth
        self._spec = spec
        login = spec.auth.get("login")
        self.spoiler = Spoiler()
        """Defects of its authorizers."""
        self.identity = _identity(login, self.spoiler) if login else None
        """Its client for logins at monitors; None without ``login``."""
        daemon = spec.entity_name.type in DAEMONS_WITH_ROTATING_KEYS
        ttl_s = spec.auth.get("service_ttl_s", DEFAULT_SERVICE_TTL_S)
        self.rotating = RotatingKeyring(spec.entity_name.type, ttl_s) if login and daemon else None
        """A daemon's service keys from monitors; None for other nodes."""
        self.monitor = self._new_monitor() if "entities" in spec.auth else None
        """Its authentication server as a monitor; None for other nodes."""
        self.secrets = self._own_secrets()
        """Service keys that decrypt tickets here, by secret_id; changed in place."""
        self.minting: MintingClient | None = None
        """Its client that makes its own tickets; None if monitors make them."""
        self.client = self._new_client()
        self.server = self._new_server()

    def _methods(self, side: str) -> list[AuthMethod]:
        names = self._auth.get(side) or self._auth.get("methods") or ["cephx"]
        return [_method(name) for name in names]

    def _own_secrets(self) -> dict[int, CryptoKey]:
        if self.rotating is not None:
            return self.rotating.secrets
        given = self._auth.get("secrets")
        if given is None:
            return {SERVICE_SECRET_ID: self._spec.key}
        return read_secrets(given)

    def _new_client(self) -> AuthClient:
        entity = self._spec.entity_name
        name = AuthName(entity.type, str(entity.num))
        clients: dict[AuthMethod, AuthClient] = {}
        for method in self._methods("offers"):
            if method is AuthMethod.NONE:
                clients[method] = NoneClient(name, 0 if self.identity else entity.num)
            else:
                clients[method] = self.identity or self._minting(name)
        return next(iter(clients.values())) if len(clients) == 1 else ClientAuth(clients)

    def _minting(self, name: AuthName) -> MintingClient:
        mints = self._auth.get("mints", {})
        self.minting = _Minting(
            name,
            self._spec.entity_name.num,
            self._service_keys(mints),
            self.spoiler,
            validity_s=mints.get("validity_s", 3600.0),
            keeps=mints.get("keeps", False),
        )
        return self.minting

    def _service_keys(self, mints: Mapping[str, Any]) -> dict[EntityType, ServiceKey]:
        key = CryptoKey.from_base64(mints["key"]) if "key" in mints else self._spec.key
        service_key = ServiceKey(mints.get("secret_id", SERVICE_SECRET_ID), key)
        return dict.fromkeys({_entity_type(text) for text in self._spec.peer_entities.values()}, service_key)

    def mint_with(self, mints: Mapping[str, Any]) -> None:
        """Make tickets with another key from now on; tickets that are kept serve until they are rejected."""
        if self.minting is None:
            raise LocalError("node auth: a node that logs in makes no tickets itself")
        self.minting.use_keys(self._service_keys(mints))

    def _new_server(self) -> AuthServer:
        if self.monitor is not None:
            return self.monitor
        servers: dict[AuthMethod, AuthServer] = {}
        for method in self._methods("allows"):
            if method is AuthMethod.NONE:
                servers[method] = NoneServer()
            else:
                servers[method] = CephxService(self._spec.entity_name.type, self.secrets)
        return next(iter(servers.values())) if len(servers) == 1 else ServerAuth(servers)

    def _new_monitor(self) -> MonAuthServer:
        auth = self._auth
        allowed = tuple(KeyType.from_label(label) for label in auth.get("allowed", ("aes", "aes256k")))
        service_cipher = KeyType.from_label(auth.get("service_cipher", KeyType(self._spec.key.type).label))
        times = {name: auth[name] for name in ("auth_ttl_s", "service_ttl_s") if name in auth}
        keys = KeyServer(
            {AuthName.parse(name): _principal(entity) for name, entity in auth["entities"].items()},
            Random(
                f"{self._spec.seed} {self._spec.service_key} service keys"
            ),  # those of all monitors, and a secret
            policy=CipherPolicy(allowed, allowed[0], service_cipher),
            first_global_id=auth.get("first_global_id", 4100),
            **times,
        )
        return MonAuthServer(
            keys,
            [_method(name) for name in auth.get("cluster_required", ("cephx",))],
            [_method(name) for name in auth.get("service_required", ("cephx",))],
            auth.get("insecure_reclaim", False),
            auth.get("ready", True),
        )


def read_secrets(given: Mapping[str, str]) -> dict[int, CryptoKey]:
    """Parse service keys by secret_id from JSON."""
    return {int(secret_id): CryptoKey.from_base64(key) for secret_id, key in given.items()}


def _identity(login: Mapping[str, Any], spoiler: Spoiler) -> CephxClient:
    wanted = login.get("wanted", int(CLIENT_SERVICES | EntityType.MDS))
    return _Client(AuthName.parse(login["name"]), CryptoKey.from_base64(login["key"]), wanted, spoiler)


def _principal(entity: Mapping[str, Any]) -> Principal:
    pending = entity.get("pending_key")
    pending_key = CryptoKey.from_base64(pending) if pending else None
    return Principal(CryptoKey.from_base64(entity["key"]), entity.get("caps", {"mon": "allow *"}), pending_key)


def _method(name: str) -> AuthMethod:
    try:
        return AuthMethod[name.upper()]
    except KeyError:
        raise LocalError(f"unknown authentication method {name!r}; known: cephx, none") from None


def _entity_type(text: str) -> EntityType:
    return EntityType.from_label(text.partition(".")[0])
