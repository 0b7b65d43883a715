"""Records of a link's keys, tickets and memory for the checks; they contain no secret."""

from hashlib import blake2b
from typing import TYPE_CHECKING

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.config import Config
from messenger.receive import SCRATCH_BYTES

if TYPE_CHECKING:
    from messenger.link import Link
    from messenger.v2.onwire import StreamCipher

_DIGEST_BYTES = 8
_KEY_BYTES = 16
_TICKET_DIGITS = 3


class Peaks:
    """The most bytes that a link has held at once for incomplete data, before and after authentication."""

    __slots__ = ("_data_bytes", "_handshake_bytes")

    def __init__(self) -> None:
        self._handshake_bytes = 0
        self._data_bytes = 0

    def note(self, held_bytes: int, *, authenticated: bool) -> None:
        """Record that the link holds ``held_bytes`` now."""
        if authenticated:
            self._data_bytes = max(self._data_bytes, held_bytes)
        else:
            self._handshake_bytes = max(self._handshake_bytes, held_bytes)

    def fields(self, config: Config) -> dict[str, object]:
        """The fields of the peaks in a ``usage`` record, with their limits.

        A limit is the longest frame and one read beyond it; before authentication also what is kept for the
        signatures (docs/protocol.md §4.7).
        """
        handshake_limit = config.max_preauth_frame_bytes + config.max_preauth_bytes
        return {
            "handshake_bytes": self._handshake_bytes,
            "handshake_limit_bytes": handshake_limit + SCRATCH_BYTES,
            "data_bytes": self._data_bytes,
            "data_limit_bytes": config.max_frame_bytes + SCRATCH_BYTES,
        }


def auth_fields(link: "Link", now: float) -> dict[str, object]:
    """The fields of an ``auth`` record: how the peer of a link has authenticated, without secrets."""
    endpoint, result = link.endpoint, link.auth_result
    assert result is not None
    known = bool(result.session_key)
    modes = link.allowed_modes if known else (ConMode.CRC,)  # secure mode needs keys
    expires_s = result.ticket_expires_s
    left_s = None if expires_s is None else round(expires_s - endpoint.wall_time_s(now), _TICKET_DIGITS)
    key = result.connection_secret[:_KEY_BYTES]
    rx_nonce, tx_nonce = (_nonce_digest(key, cipher) for cipher in link.ciphers) if link.ciphers else ("", "")
    return {
        "link": link.id,
        "session": link.session.id if link.session else None,
        "method": (AuthMethod.CEPHX if known else AuthMethod.NONE).name.lower(),
        "mode": link.con_mode.name.lower(),
        "modes": " ".join(mode.name.lower() for mode in modes),
        "cipher": result.session_key_type.label,
        "global_id": result.global_id,
        "ticket_left_s": left_s,
        "key": _digest(key) if link.ciphers else "",
        "tx_nonce": tx_nonce,
        "rx_nonce": rx_nonce,
        "revision": link.revision,
    }


def _nonce_digest(key: bytes, cipher: "StreamCipher") -> str:
    return _digest(key + cipher.first_nonce)


def _digest(secret: bytes) -> str:
    return blake2b(secret, digest_size=_DIGEST_BYTES).hexdigest()
