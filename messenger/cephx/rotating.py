"""Rotating service keys: how monitors renew them and daemons keep up (docs/protocol.md §5.6).

A service has three: the previous one still opens tickets, the current one seals new ones, and the next one is
with the daemons before any ticket needs it.
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
"""``auth_service_ticket_ttl`` (§7.3)."""
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
    """The keys of one service, as the monitors keep them.

    Args:
        ttl_s: how long each is the current one; the longest validity of a ticket for the service.
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
        """What daemons of the service are sent."""
        return RotatingSecrets(dict(self._keys), self._max_ver)

    def rotate(self, wall_time_s: float, key_type: KeyType, rng: RandomSource) -> bool:
        """Make the keys that are due, of ``key_type``; returns whether there were any."""
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
        """The key for a new ticket, and the validity in seconds that the ticket may have.

        Call :meth:`rotate` first.
        """
        secret_id = self._current_id()
        # A ticket must not outlive every key the service has, should the ttl have been raised since (§5.5).
        validity_s = min(self.ttl_s, self._expiration_s(self._max_ver) - wall_time_s)
        return ServiceKey(secret_id, self._keys[secret_id].key), validity_s

    def _current_id(self) -> int:
        return _current(self._keys)

    def _expiration_s(self, secret_id: int) -> float:
        return self._keys[secret_id].expiration.to_seconds()


class RotatingKeyring:
    """The keys of one service, as a daemon of that service got them from the monitors.

    Args:
        service: the daemon's own type.
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
        """Replace all keys by those that the monitors sent; any other is as good as stolen (§5.6)."""
        self.secrets.clear()
        self.secrets.update({secret_id: e.key for secret_id, e in received.secrets.items()})
        self._expiration_s = {secret_id: e.expiration.to_seconds() for secret_id, e in received.secrets.items()}

    def needs_refresh(self, wall_time_s: float) -> bool:
        """True if new keys are due from a monitor.

        So when keys are missing, or when the current one expired so long ago that the monitors must have made
        another: they have a while to agree on one, in which asking would be in vain.
        """
        if len(self.secrets) < KEPT_KEYS:
            return True
        return self._expiration_s[_current(self._expiration_s)] <= wall_time_s - self.grace_s


def _current(by_secret_id: dict[int, ExpiringCryptoKey] | dict[int, float]) -> int:
    """The second oldest of the ids, or the only one."""
    ids = sorted(by_secret_id)
    return ids[min(1, len(ids) - 1)]
