"""The key log: the keys with which the links of a capture can be decrypted and verified, one line per link.

Each holder of a link's keys (either end, or a proxy that can read the link) writes a line when authentication is
complete. A reader of a capture finds the line by the last authentication payload, which is in the capture too::

    v2 LINK SESSION_KEY CONNECTION_SECRET
    v1 LINK SESSION_KEY -

LINK is 32 hex digits: a digest of the acceptor's last authentication payload, which is that of AUTH_DONE in v2 and
the authorizer after the READY or SEQ reply in v1. It is encrypted with keys and nonces of this one authentication,
so no two links share it. SESSION_KEY is written as in keyrings, CONNECTION_SECRET in hex, or ``-`` in crc mode.
Links without keys (auth none, clients of monitors on v1) have no line. A third kind of line is written by hand,
and contains a key that a service shares with the monitors::

    service TYPE SECRET_ID KEY

Blank lines and lines that begin with ``#`` are ignored.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from messenger.cephx.connection_secret import CONNECTION_SECRET_SIZE
from messenger.cephx.exchange import AuthResult
from messenger.cephx.keys import CryptoKey
from messenger.denc.codec import Buffer
from messenger.denc.entity import EntityType
from messenger.errors import LocalError

MOST_KEY_LOG_BYTES = 1 << 26
"""Longest key log file that is read: the keys of some 270,000 links."""
_LINK_DIGITS = 32
_NOTHING = "-"
_U64_LIMIT = 1 << 64
_SECRET_ID_DIGITS = 20
_PROTOCOLS = frozenset({"v1", "v2"})


def link_digest(auth_payload: Buffer) -> str:
    """The digest that identifies a link in the log, made from its last authentication payload."""
    return hashlib.sha256(auth_payload).hexdigest()[:_LINK_DIGITS]


@dataclass(frozen=True, slots=True)
class LinkSecrets:
    """The keys of one link."""

    protocol: str
    """``v1`` or ``v2``."""
    link: str
    """The digest that identifies the link, from :func:`link_digest`."""
    session_key: CryptoKey
    """Signs messages (v1), or all bytes of the handshake (v2)."""
    connection_secret: bytes = field(default=b"", repr=False)
    """Key and nonces of secure mode; empty in crc mode."""

    @classmethod
    def of(cls, protocol: str, auth_payload: Buffer, result: AuthResult) -> Self | None:
        """The keys of a link that has authenticated; None if it has no keys."""
        if not result.session_key:
            return None
        session_key = CryptoKey(result.session_key_type, result.session_key)
        return cls(protocol, link_digest(auth_payload), session_key, result.connection_secret)

    def line(self) -> str:
        """The line of the log, with its newline."""
        secret = self.connection_secret.hex() or _NOTHING
        return f"{self.protocol} {self.link} {self.session_key.to_base64()} {secret}\n"


@dataclass(frozen=True, slots=True)
class ServiceSecret:
    """A key that a service shares with the monitors."""

    service: EntityType
    secret_id: int
    key: CryptoKey

    def line(self) -> str:
        """The line of the log, with its newline."""
        return f"service {self.service.label} {self.secret_id} {self.key.to_base64()}\n"


def parse_key_log(text: str, source: str = "key log") -> Iterator[LinkSecrets | ServiceSecret]:
    """Parse the lines of a key log.

    Args:
        text: the text of the log.
        source: name of the log in errors, usually the file's path.

    Raises:
        LocalError: a line is malformed; the error names ``source`` and the line number.
    """
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            yield _parse(words)
        except LocalError as error:
            raise LocalError(f"{source}:{number}: {error}") from None


def _parse(words: list[str]) -> LinkSecrets | ServiceSecret:
    match words:
        case [protocol, link, key, secret] if protocol in _PROTOCOLS:
            return LinkSecrets(protocol, _link(link), CryptoKey.from_base64(key), _connection_secret(secret))
        case ["service", label, secret_id, key]:
            return ServiceSecret(EntityType.from_label(label), _secret_id(secret_id), CryptoKey.from_base64(key))
    # Does not quote the line, which may contain a key.
    raise LocalError("neither 'v1 or v2 LINK SESSION_KEY CONNECTION_SECRET' nor 'service TYPE SECRET_ID KEY'")


def _link(text: str) -> str:
    if len(text) != _LINK_DIGITS or not set(text) <= set("0123456789abcdef"):
        raise LocalError(f"a link is {_LINK_DIGITS} hex digits in lower case")
    return text


def _connection_secret(text: str) -> bytes:
    if text == _NOTHING:
        return b""
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        raise LocalError("the connection secret is not in hex") from None
    if len(secret) != CONNECTION_SECRET_SIZE:
        raise LocalError(f"connection secret of {len(secret)} bytes, {CONNECTION_SECRET_SIZE} are due")
    return secret


def _secret_id(text: str) -> int:
    """Parse a secret_id as Ceph prints it: -1 stands for the service's own key."""
    short = len(text) <= _SECRET_ID_DIGITS and text.removeprefix("-").isdecimal()
    number = int(text) if short else _U64_LIMIT
    if not -1 <= number < _U64_LIMIT:
        raise LocalError("a secret_id is a number of 64 bits, or -1")
    return number % _U64_LIMIT
