"""The implementation under test: its address, the credentials for it, and the facts that the survey found."""

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


class TargetLost(MsgrError):
    """The target accepts no TCP connections."""


@dataclass(slots=True)
class Facts:
    """The properties of a target that the survey found; they decide which cases can be run."""

    entity_type: EntityType = EntityType.ANY
    msgr2_features: int = 0
    methods: list[AuthMethod] = field(default_factory=list)
    modes: list[ConMode] = field(default_factory=list)
    """Connection modes in which this peer can authenticate."""
    login_error: str = ""
    """Reason why this peer cannot authenticate; empty if it can."""
    session_error: str = ""
    """Reason why this peer cannot open a session; empty if it can."""
    lossless: bool = False
    replies: bool = False
    """True if ACKs or answers to MPing show which messages the target has received."""
    signed: bool = False
    """v1: True if messages carry signatures."""


@dataclass(slots=True)
class Target:
    """An address to test, and the identity to test it with."""

    addr: EntityAddr
    name: EntityName
    """Entity name of the peer."""
    auth_client: AuthClient
    by_cephx: bool = False
    """True if the peer authenticates by cephx, False for method none."""
    patience_s: float = 2.0
    """Time limit of each answer."""
    facts: Facts = field(default_factory=Facts)

    @property
    def protocol(self) -> Protocol:
        """The protocol of the address."""
        return Protocol.of(self.addr)

    def connect(self) -> tuple[SocketStream, EntityAddr]:
        """Open a TCP connection; return it and the local address.

        Raises:
            TargetLost: no connection can be opened within the time limit.
        """
        try:
            sock = socket.create_connection((self.addr.host, self.addr.port), self.patience_s)
        except OSError as error:
            raise TargetLost(f"{self.addr.host}:{self.addr.port}: {error.strerror or error}") from None
        host, port = sock.getsockname()[:2]
        return SocketStream(sock), EntityAddr.from_host(host, port, self.addr.type)
