"""Connection secrets of a key log for links whose handshake the capture does not have.

A key log names each link by the end of its handshake. A link that is captured from the middle on has no name, so
any secret that no handshake has claimed may be its own (:mod:`toolkit.dissect.keys.nonces`).
"""

from typing import TYPE_CHECKING

from messenger.cephx.connection_secret import CONNECTION_SECRET_SIZE

if TYPE_CHECKING:
    from toolkit.dissect.keys.nonces import NonceTables

MOST_SECRETS = 8
"""Secrets that are tried, the last ones of the key log first."""


class MidstreamSecrets:
    """Connection secrets that no handshake of the capture has claimed; one object for all links of a capture."""

    def __init__(self) -> None:
        self._secrets: dict[bytes, None] = {}
        self.tables: NonceTables | None = None
        """Made by the first search: it takes numpy, which takes time to import."""

    def add(self, secret: bytes) -> None:
        """Add the secret of a link in secure mode; other secrets are ignored."""
        if len(secret) == CONNECTION_SECRET_SIZE:
            self._secrets[secret] = None

    def claim(self, secret: bytes) -> None:
        """Remove a secret whose link is known."""
        self._secrets.pop(secret, None)

    def candidates(self) -> list[bytes]:
        """Return the secrets to try, the last one added first."""
        return [*reversed(self._secrets)][:MOST_SECRETS]
