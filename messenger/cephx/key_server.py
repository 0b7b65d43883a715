"""The monitors' key database: entities' keys and capabilities, rotating keys of services (docs/protocol.md §5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from messenger.cephx.ciphers import CIPHERS, KeyType
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.cephx.refusal import Refusal
from messenger.cephx.rotating import (
    DEFAULT_SERVICE_TTL_S,
    SERVICES_WITH_ROTATING_KEYS,
    RotatingKeys,
)
from messenger.cephx.structures import NAMED_KEY_SECRET_ID, RotatingSecrets
from messenger.cephx.tickets import TicketGrant, mint_ticket
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import LocalError
from messenger.randomness import RandomSource

DEFAULT_AUTH_TTL_S = 72 * 3600.0
"""Default of ``auth_mon_ticket_ttl`` (§7.3)."""
MON_NAME = AuthName(EntityType.MON, "")
"""The entity of all monitors, which share one key."""
_FIRST_GLOBAL_ID = 4100
_GLOBAL_ID_LIMIT = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Principal:
    """An entity; ``caps`` are its capabilities by service, as in a keyring."""

    key: CryptoKey
    caps: Mapping[str, str] = field(default_factory=dict)
    pending_key: CryptoKey | None = None
    """The key that replaces ``key`` once the entity has used it; until then both are valid (§5.8)."""

    @property
    def keys(self) -> tuple[CryptoKey, ...]:
        """The keys with which the entity may authenticate."""
        return (self.key,) if self.pending_key is None else (self.key, self.pending_key)


@dataclass(frozen=True, slots=True)
class CipherPolicy:
    """The monitor map's settings for key types (§5.1, §6.5).

    Raises:
        LocalError: ``preferred`` is not among the allowed types, or a type is not supported here.
    """

    allowed: tuple[KeyType, ...] = (KeyType.AES, KeyType.AES256KRB5)
    """Key types with which entities may authenticate."""
    preferred: KeyType = KeyType.AES
    """Key type of new keys of entities."""
    service: KeyType = KeyType.AES
    """Key type of rotating keys, which only daemons need to support."""

    def __post_init__(self) -> None:
        for key_type in (*self.allowed, self.service):
            if key_type not in CIPHERS:
                raise LocalError(f"keys of type {key_type} are not supported")
        if self.preferred not in self.allowed:
            raise LocalError(f"the preferred key type {self.preferred.label} is not among those allowed")


class KeyServer:
    """The entities, rotating keys and global_ids of a cluster; all its monitors share one.

    Args:
        principals: the entities; used without a copy, so that they can be added, changed and removed.
        rng: source of the rotating keys.
        policy: the allowed key types.
        auth_ttl_s: ``auth_mon_ticket_ttl``.
        service_ttl_s: ``auth_service_ticket_ttl``.
        first_global_id: the first id assigned.
        global_id_limit: ids from this one on are not assigned.
        mon_ticket_caps: True if tickets for monitors contain capabilities, as since Tentacle. No monitor reads
            them.
    """

    def __init__(
        self,
        principals: dict[AuthName, Principal],
        rng: RandomSource,
        *,
        policy: CipherPolicy | None = None,
        auth_ttl_s: float = DEFAULT_AUTH_TTL_S,
        service_ttl_s: float = DEFAULT_SERVICE_TTL_S,
        first_global_id: int = _FIRST_GLOBAL_ID,
        global_id_limit: int = _GLOBAL_ID_LIMIT,
        mon_ticket_caps: bool = True,
    ) -> None:
        self.principals = principals
        self.policy = policy or CipherPolicy()
        """Replace it to change the policy; rotating keys change their type at the next rotation."""
        self._rng = rng
        self._rotating = {service: RotatingKeys(service_ttl_s) for service in SERVICES_WITH_ROTATING_KEYS}
        self._rotating[EntityType.AUTH].ttl_s = auth_ttl_s
        self._next_global_id = first_global_id
        self._global_id_limit = global_id_limit
        self._without_caps = {EntityType.AUTH} if mon_ticket_caps else {EntityType.AUTH, EntityType.MON}
        self.used_pending_keys: dict[AuthName, CryptoKey] = {}
        """Entities that authenticated with a pending key, which may now replace the old one
        (MMonUsedPendingKeys)."""

    @classmethod
    def from_keyring(cls, keyring: Keyring, rng: RandomSource) -> "KeyServer":
        """Create a server for the entities of a keyring file."""
        return cls({name: Principal(entry.key, entry.caps) for name, entry in keyring.entries.items()}, rng)

    def add(
        self, name: AuthName, caps: Mapping[str, str], wall_time_s: float, key_type: KeyType | None = None
    ) -> CryptoKey:
        """Add an entity with a new key, of the preferred type unless given; returns the key."""
        key = CryptoKey.generate(self._rng, wall_time_s, key_type or self.policy.preferred)
        self.principals[name] = Principal(key, caps)
        return key

    def note_key_use(self, name: AuthName, key: CryptoKey) -> None:
        """Record that ``name`` authenticated with ``key``, if that is its pending key."""
        principal = self.principals.get(name)
        if principal is not None and key is principal.pending_key:
            self.used_pending_keys[name] = key

    def commit_pending_key(self, name: AuthName) -> None:
        """Make the pending key of an entity its only one.

        Raises:
            LocalError: there is no such entity, or it has no pending key.
        """
        principal = self.principals.get(name)
        if principal is None or principal.pending_key is None:
            raise LocalError(f"{name} has no pending key")
        self.principals[name] = Principal(principal.pending_key, principal.caps)
        self.used_pending_keys.pop(name, None)

    def usable_keys(self, name: AuthName) -> list[CryptoKey]:
        """The keys with which ``name`` may authenticate.

        Raises:
            RefusedError: UNKNOWN_ENTITY; DISALLOWED_CIPHER: it has no key of an allowed type.
        """
        principal = self.principals.get(name)
        if principal is None:
            raise Refusal.UNKNOWN_ENTITY.error(f"there is no {name}")
        usable = [key for key in principal.keys if key.type in self.policy.allowed]
        if not usable:
            allowed = ", ".join(key_type.label for key_type in self.policy.allowed)
            raise Refusal.DISALLOWED_CIPHER.error(
                f"{name} has keys of type {principal.key.type}; allowed: {allowed}"
            )
        return usable

    def caps(self, name: AuthName, service: EntityType) -> str:
        """The capabilities of ``name`` at a service; empty if it has none."""
        principal = self.principals.get(name)
        return principal.caps.get(service.label, "") if principal else ""

    def new_global_id(self) -> int:
        """Assign a global_id that no entity has had.

        Raises:
            RefusedError: BUSY: no global_id is left.
        """
        if self._next_global_id >= self._global_id_limit:
            raise Refusal.BUSY.error(f"no global_id below {self._global_id_limit} is left")
        self._next_global_id += 1
        return self._next_global_id - 1

    # ---- rotating keys

    def set_lifetimes(self, *, auth_ttl_s: float | None = None, service_ttl_s: float | None = None) -> None:
        """Change ``auth_mon_ticket_ttl`` and ``auth_service_ticket_ttl`` for tickets and keys from now on.

        Keys that there are stay current for as long as they were made for.
        """
        for service, keys in self._rotating.items():
            ttl_s = auth_ttl_s if service is EntityType.AUTH else service_ttl_s
            keys.ttl_s = keys.ttl_s if ttl_s is None else ttl_s

    def rotate(self, wall_time_s: float) -> bool:
        """Create the rotating keys that are due; True if there were any."""
        rotated = [keys.rotate(wall_time_s, self.policy.service, self._rng) for keys in self._rotating.values()]
        return any(rotated)

    def wipe(self, wall_time_s: float) -> None:
        """Discard the keys of all services except AUTH, and start again at secret_id 1.

        The AUTH keys are kept, because without them every client would lose its global_id; an AUTH ticket opens no
        service.
        """
        for service in SERVICES_WITH_ROTATING_KEYS:
            if service is not EntityType.AUTH:
                self._rotating[service] = RotatingKeys(self._rotating[service].ttl_s)
        self.rotate(wall_time_s)

    def secrets(self, service: EntityType) -> dict[int, CryptoKey]:
        """The keys that open tickets for a service, by secret_id; for monitors also the key that they share."""
        secrets = self._rotating[service].secrets if service in self._rotating else {}
        if service is EntityType.MON and MON_NAME in self.principals:
            secrets[NAMED_KEY_SECRET_ID] = self.principals[MON_NAME].key
        return secrets

    def rotating_secrets(self, service: EntityType) -> RotatingSecrets:
        """The rotating keys that a daemon of that service receives.

        Raises:
            RefusedError: NO_ROTATING_KEYS: there is no such service.
        """
        keys = self._rotating.get(service)
        if keys is None:
            raise Refusal.NO_ROTATING_KEYS.error(f"{service.label} has no rotating keys")
        return keys.exported()

    def grant(
        self,
        service: EntityType,
        name: AuthName,
        global_id: int,
        session_key_type: KeyType,
        wall_time_s: float,
        rng: RandomSource,
    ) -> TicketGrant:
        """Create a ticket. A ticket for AUTH contains no capabilities: the monitors look them up."""
        keys = self._rotating[service]
        keys.rotate(wall_time_s, self.policy.service, self._rng)
        service_key, validity_s = keys.sealing_key(wall_time_s)
        return mint_ticket(
            service_key,
            service,
            name,
            global_id,
            caps="" if service in self._without_caps else self.caps(name, service),
            validity_s=validity_s,
            session_key_type=session_key_type,
            wall_time_s=wall_time_s,
            rng=rng,
        )

    def grant_all(
        self,
        services: int,
        name: AuthName,
        global_id: int,
        session_key_type: KeyType,
        wall_time_s: float,
        rng: RandomSource,
    ) -> Sequence[TicketGrant]:
        """Tickets for the services of a mask except AUTH, which requires proof of the entity's key (§5.5)."""
        return [
            self.grant(service, name, global_id, session_key_type, wall_time_s, rng)
            for service in sorted(self._rotating)
            if service & services and service is not EntityType.AUTH
        ]
