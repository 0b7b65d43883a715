"""All keys of a capture: given in keyrings and key logs, or learnt from its links.

See docs/protocol.md §5.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Self

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import NAMED_KEY_SECRET_ID, RotatingSecrets, TicketBlob
from messenger.cephx.tickets import TicketGrant
from messenger.denc.codec import Buffer
from messenger.denc.entity import AuthName, EntityType
from messenger.files import read_text
from messenger.keylog import MOST_KEY_LOG_BYTES, LinkSecrets, link_digest, parse_key_log
from toolkit.dissect.keys.midstream import MidstreamSecrets
from toolkit.dissect.keys.recent import Recent

_MOST_LEARNT = 1 << 16
_LONGEST_ID = 256
"""Length up to which names are kept; those in a hostile capture may be of any length."""
_DIGEST_BYTES = 16


class KeyBook:
    """The keys for all links of a capture; it grows while the capture is read.

    Give it to the decoder of every link, in the order of the capture: the keys that a client gets from a monitor
    open its links to other daemons. The number of learnt keys is bounded; the oldest are dropped.

    Args:
        principals: keys of entities.
        services: keys that services share with the monitors, by secret_id.
    """

    def __init__(
        self,
        principals: Mapping[AuthName, CryptoKey] | None = None,
        services: Mapping[EntityType, Mapping[int, CryptoKey]] | None = None,
    ) -> None:
        self._principals: dict[AuthName, list[CryptoKey]] = {}
        self._nameless: list[CryptoKey] = []
        """Keys of keyfiles, which do not name the owner; they may belong to any entity."""
        self._services: Recent[tuple[int, int], tuple[CryptoKey, ...]] = Recent(_MOST_LEARNT)
        self._tickets: Recent[bytes, CryptoKey] = Recent(_MOST_LEARNT)
        """Session keys by digests of the tickets that carry them."""
        self._auth_sessions: Recent[int, CryptoKey] = Recent(_MOST_LEARNT)
        self._names: Recent[int, AuthName] = Recent(_MOST_LEARNT)
        self._misfits: Recent[AuthName, bool] = Recent(_MOST_LEARNT)
        self._logged: dict[tuple[str, str], LinkSecrets] = {}
        self.midstream = MidstreamSecrets()
        """Secrets of the key log for links whose handshake the capture does not have."""
        for name, key in (principals or {}).items():
            self.add_key(name, key)
        for service, keys in (services or {}).items():
            for secret_id, key in keys.items():
                self.add_service_key(service, secret_id, key)

    @classmethod
    def read(cls, keyrings: Sequence[Path] = (), key_logs: Sequence[Path] = ()) -> Self:
        """Read the keys in files.

        Raises:
            LocalError: a file cannot be read, is too long, or is not a keyring or key log; names file and line.
        """
        book = cls()
        for path in keyrings:
            book.add_keyring(Keyring.load(path))
        for path in key_logs:
            book.add_key_log(read_text(path, MOST_KEY_LOG_BYTES, "key log"), str(path))
        return book

    # ---- given

    def add_keyring(self, keyring: Keyring) -> None:
        """Add the keys of a keyring; the key of a keyfile may belong to any entity."""
        if keyring.keyfile_key is not None:
            self.add_key(None, keyring.keyfile_key)
        for name, entry in keyring.entries.items():
            self.add_key(name, entry.key)

    def add_key(self, name: AuthName | None, key: CryptoKey) -> None:
        """Add the key of an entity; None if the entity is unknown."""
        keys = self._nameless if name is None else self._principals.setdefault(name, [])
        if key.type != KeyType.NONE and key not in keys:
            keys.append(key)

    def add_service_key(self, service: int, secret_id: int, key: CryptoKey) -> None:
        """Add a key that a service shares with the monitors."""
        known = self._services.get((service, secret_id)) or ()
        if key not in known:
            # Captures of several clusters have several keys of one id.
            self._services.put((service, secret_id), (key, *known[:3]))

    def add_key_log(self, text: str, source: str = "key log") -> None:
        """Add the keys of a key log.

        Args:
            text: the key log; see :mod:`messenger.keylog`.
            source: name of the key log in errors.

        Raises:
            LocalError: a line is malformed; names ``source`` and line.
        """
        for entry in parse_key_log(text, source):
            if isinstance(entry, LinkSecrets):
                self._logged[entry.protocol, entry.link] = entry
                self.midstream.add(entry.connection_secret)
            else:
                self.add_service_key(entry.service, entry.secret_id, entry.key)

    # ---- learnt

    def learn_tickets(self, global_id: int, grants: Sequence[TicketGrant]) -> None:
        """Add the session keys of tickets that a monitor granted."""
        for grant in grants:
            if grant.service_id == EntityType.AUTH:
                self._auth_sessions.put(global_id, grant.ticket.session_key)
            if grant.blob is not None:
                self.learn_ticket(grant.blob, grant.ticket.session_key)

    def learn_ticket(self, blob: TicketBlob, session_key: CryptoKey) -> None:
        """Add the session key of a ticket."""
        self._tickets.put(_digest(blob), session_key)

    def learn_rotating(self, service: EntityType, secrets: RotatingSecrets) -> None:
        """Add the service keys that a monitor gave to a daemon."""
        for secret_id, expiring in secrets.secrets.items():
            self.add_service_key(service, secret_id, expiring.key)

    def learn_name(self, global_id: int, name: AuthName) -> None:
        """Note the entity to which a monitor assigned a global_id."""
        if global_id and len(name.id) <= _LONGEST_ID:
            self._names.put(global_id, name)

    def note_misfit(self, name: AuthName) -> None:
        """Note that the key of an entity does not decrypt what a monitor sent to it."""
        if len(name.id) <= _LONGEST_ID:
            self._misfits.put(name, True)

    # ---- asked for

    def keys_of(self, name: AuthName | None) -> list[tuple[AuthName | None, CryptoKey]]:
        """Return the keys that an entity may have, with their owners if known; all keys if ``name`` is None."""
        named = self._principals if name is None else {name: self._principals.get(name, [])}
        keys: list[tuple[AuthName | None, CryptoKey]] = [(owner, key) for owner in named for key in named[owner]]
        return keys + [(name, key) for key in self._nameless]

    def service_keys(self, service: int, secret_id: int) -> list[CryptoKey]:
        """Return the keys that may have sealed a ticket for a service. Raises DecodeError if it is unknown."""
        keys = list(self._services.get((service, secret_id)) or ())
        if secret_id == NAMED_KEY_SECRET_ID:
            keys += [key for _, key in self.keys_of(AuthName(EntityType.from_wire(service), ""))]
        return keys

    def session_key(self, blob: TicketBlob) -> CryptoKey | None:
        """Return the session key of a ticket; None if it is unknown."""
        return self._tickets.get(_digest(blob))

    def auth_session_key(self, global_id: int) -> CryptoKey | None:
        """Return the session key of the last AUTH ticket of a global_id; None if it is unknown."""
        return self._auth_sessions.get(global_id)

    def name_of(self, global_id: int) -> AuthName | None:
        """Return the entity with a global_id; None if it is unknown."""
        return self._names.get(global_id)

    def fits(self, name: AuthName) -> bool:
        """True if there is a key of the entity that was not found to be wrong."""
        return bool(self.keys_of(name)) and name not in self._misfits

    def logged(self, protocol: str, auth_payload: Buffer) -> LinkSecrets | None:
        """Return the key log's entry for the link whose authentication ended with these bytes; or None."""
        return self._logged.get((protocol, link_digest(auth_payload))) if self._logged else None


def _digest(blob: TicketBlob) -> bytes:
    return blake2b(blob.blob, digest_size=_DIGEST_BYTES, key=blob.secret_id.to_bytes(8, "little")).digest()
