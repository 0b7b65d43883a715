"""Rotating service keys: how monitors renew them and daemons get them (docs/protocol.md §5.6).

A service has three: the previous one still opens tickets, the current one seals new tickets, and the next one is
distributed to the daemons before any ticket uses it.
"""

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import ExpiringCryptoKey, RotatingSecrets
from messenger.cephx.tickets import ServiceKey
from messenger.denc.entity import EntityType
from messenger.denc.utime import UTime
from messenger.randomness import RandomSource

KEPT_KEYS = 3
DEFAULT_SERVICE_TTL_S = 3600.0
"""Default of ``auth_service_ticket_ttl`` (§7.3)."""
_LONGEST_GRACE_S = 30.0

SERVICES_WITH_ROTATING_KEYS = (
    EntityType.AUTH,
    EntityType.MON,
    EntityType.OSD,
    EntityType.MDS,
    EntityType.MGR,
)
DAEMONS_WITH_ROTATING_KEYS = frozenset({EntityType.OSD, EntityType.MDS, EntityType.MGR})
"""Daemons that request their keys with GET_ROTATING_KEY; monitors have them already."""


class RotatingKeys:
    """The keys of one service, as the monitors store them.

    Args:
        ttl_s: seconds for which each key is the current one; also the longest validity of a ticket for the
            service.
    """

    def __init__(self, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        """May be changed: it counts for tickets and for keys made from then on."""
        self._keys: dict[int, ExpiringCryptoKey] = {}
        self._max_ver = 0

    @property
    def secrets(self) -> dict[int, CryptoKey]:
        """The keys that open tickets, by secret_id."""
        return {secret_id: expiring.key for secret_id, expiring in self._keys.items()}

    def exported(self) -> RotatingSecrets:
        """The keys in the form that daemons of the service receive."""
        return RotatingSecrets(dict(self._keys), self._max_ver)

    def rotate(self, wall_time_s: float, key_type: KeyType, rng: RandomSource) -> bool:
        """Create the keys that are due, of ``key_type``; True if there were any."""
        rotated = False
        while len(self._keys) < KEPT_KEYS or self._expiration_s(self._current_id()) <= wall_time_s:
            starts_s = wall_time_s
            if self._keys:
                starts_s = max(wall_time_s + self.ttl_s, self._expiration_s(self._max_ver))
            self._max_ver += 1
            key = CryptoKey.generate(rng, wall_time_s, key_type)
            self._keys[self._max_ver] = ExpiringCryptoKey(key, UTime.from_seconds(starts_s + self.ttl_s))
            if len(self._keys) > KEPT_KEYS:
                del self._keys[min(self._keys)]
            rotated = True
        return rotated

    def sealing_key(self, wall_time_s: float) -> tuple[ServiceKey, float]:
        """The key for a new ticket, and the longest validity of the ticket in seconds.

        Call :meth:`rotate` first.
        """
        secret_id = self._current_id()
        # A ticket must not outlive every key of the service, even if the ttl has been raised since (§5.5).
        validity_s = min(self.ttl_s, self._expiration_s(self._max_ver) - wall_time_s)
        return ServiceKey(secret_id, self._keys[secret_id].key), validity_s

    def _current_id(self) -> int:
        return _current(self._keys)

    def _expiration_s(self, secret_id: int) -> float:
        return self._keys[secret_id].expiration.to_seconds()


class RotatingKeyring:
    """The keys of one service, as a daemon of that service received them from the monitors.

    Args:
        service: the daemon's entity type.
        ttl_s: ``auth_service_ticket_ttl``.
    """

    def __init__(self, service: EntityType, ttl_s: float = DEFAULT_SERVICE_TTL_S) -> None:
        self.service = service
        self.secrets: dict[int, CryptoKey] = {}
        """The keys by secret_id, for :class:`messenger.cephx.service.CephxService`; changed in place."""
        self._expiration_s: dict[int, float] = {}
        self.grace_s = min(_LONGEST_GRACE_S, ttl_s / 4)
        """How long the monitors may take to agree on a new key once the current one has expired."""

    def install(self, received: RotatingSecrets) -> None:
        """Replace all keys by those that the monitors sent; no other key may be trusted any more (§5.6)."""
        self.secrets.clear()
        self.secrets.update({secret_id: e.key for secret_id, e in received.secrets.items()})
        self._expiration_s = {secret_id: e.expiration.to_seconds() for secret_id, e in received.secrets.items()}

    def needs_refresh(self, wall_time_s: float) -> bool:
        """True if new keys should be requested from a monitor.

        That is the case if keys are missing, or if the current one expired longer ago than the monitors need to
        agree on another one.
        """
        if len(self.secrets) < KEPT_KEYS:
            return True
        return self._expiration_s[_current(self._expiration_s)] <= wall_time_s - self.grace_s


def _current(by_secret_id: dict[int, ExpiringCryptoKey] | dict[int, float]) -> int:
    """The second oldest id, or the only one."""
    ids = sorted(by_secret_id)
    return ids[min(1, len(ids) - 1)]
