"""The implementation under test: where it is, how to log in to it, and what it was found to be."""

import socket
from dataclasses import dataclass, field
from random import SystemRandom

from messenger.cephx.exchange import AuthClient, AuthMethod, ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import MsgrError
from messenger.protocols import Protocol
from toolkit.node.raw.stream import SocketStream

RNG = SystemRandom()


class TargetGone(MsgrError):
    """The target accepts no TCP connection any more."""


@dataclass(slots=True)
class Facts:
    """What the survey found out about a target; it decides which cases can be run."""

    entity_type: EntityType = EntityType.ANY
    msgr2_features: int = 0
    methods: list[AuthMethod] = field(default_factory=list)
    modes: list[ConMode] = field(default_factory=list)
    """Connection modes in which this peer gets in."""
    login_error: str = ""
    """Why this peer does not get in; empty if it does."""
    session_error: str = ""
    """Why no session opens; empty if one does."""
    lossless: bool = False
    replies: bool = False
    """ACKs or answers to MPing show which messages have arrived."""
    signed: bool = False
    """v1: messages carry signatures."""


@dataclass(slots=True)
class Target:
    """An address to test, and the identity to test it with."""

    addr: EntityAddr
    name: EntityName
    """What the peer calls itself."""
    auth_client: AuthClient
    by_cephx: bool = False
    """False: method none."""
    patience_s: float = 2.0
    """How long any answer may take."""
    facts: Facts = field(default_factory=Facts)

    @property
    def protocol(self) -> Protocol:
        """The protocol of the address."""
        return Protocol.of(self.addr)

    def connect(self) -> tuple[SocketStream, EntityAddr]:
        """A TCP connection, and this side's end of it.

        Raises:
            TargetGone: there is none to be had in time.
        """
        try:
            sock = socket.create_connection((self.addr.host, self.addr.port), self.patience_s)
        except OSError as error:
            raise TargetGone(f"{self.addr.host}:{self.addr.port}: {error.strerror or error}") from None
        host, port = sock.getsockname()[:2]
        return SocketStream(sock), EntityAddr.from_host(host, port, self.addr.type)
