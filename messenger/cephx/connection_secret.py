"""The key material of secure mode that an acceptor gives to a connector (docs/protocol.md §4.6)."""

from messenger.cephx.exchange import ConMode
from messenger.cephx.refusal import Refusal
from messenger.randomness import RandomSource

CONNECTION_SECRET_SIZE = 64


def new_connection_secret(con_mode: ConMode, rng: RandomSource) -> bytes:
    """The acceptor's secret for a connection: random bytes in secure mode, empty in crc mode."""
    return rng.randbytes(CONNECTION_SECRET_SIZE) if con_mode == ConMode.SECURE else b""


def usable_connection_secret(secret: bytes, con_mode: ConMode) -> bytes:
    """Check the secret that a connector received; empty in crc mode.

    Raises:
        RefusedError: BAD_CONNECTION_SECRET: too short or too long for secure mode.
    """
    if con_mode != ConMode.SECURE:
        return b""
    if len(secret) != CONNECTION_SECRET_SIZE:
        detail = f"connection secret of {len(secret)} bytes, {CONNECTION_SECRET_SIZE} are due"
        raise Refusal.BAD_CONNECTION_SECRET.error(detail)
    return secret
