"""The specs that the processes of ``msgrlab bench hostile`` read as their first line, and their answers."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from messenger.denc.entity import EntityName, EntityType
from messenger.link import Protocol
from toolkit.bench.cell import KIB, MIB
from toolkit.bench.identity import MESSAGE_TYPE

HOST = "127.0.0.1"
"""Address of the server and of the legitimate client."""
ATTACKER_HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
"""Addresses from which attackers connect, in turn; loopback has all of 127.0.0.0/8."""

REQUEST, BIG_REQUEST, ONE_WAY, RECORDED = range(MESSAGE_TYPE, MESSAGE_TYPE + 4)
"""Types of messages: answered with the same data; answered with ``BIG_REPLY_BYTES``; not answered; not answered,
and sent once on the link that is recorded and replayed."""
BIG_REPLY_BYTES = 64 * KIB

CLIENTS: Mapping[Protocol, EntityName] = {
    Protocol.V2: EntityName(EntityType.CLIENT, 1),
    Protocol.V1: EntityName(EntityType.CLIENT, 2),
}
"""The legitimate client's entities by protocol: one entity could have only one session for both protocols."""
FIRST_ATTACKER = 1000
"""Number of the first attacker's entity; every link has the next number."""

THROTTLE_MIB = 32
SERVER_OPTIONS: Mapping[str, Any] = {
    "ms_dispatch_throttle_bytes": THROTTLE_MIB * MIB,
    "max_queued_bytes": 4 * MIB,
    "max_half_open_links": 512,
    "standby_timeout": 1.0,
}
"""Options of the attacked server that differ from the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    key: str
    """The service key that encrypts tickets, in its text form."""

    def as_json(self) -> str:
        """Return the line that :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the spec in a line of :meth:`as_json`."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec(_Spec):
    """The attacked server."""

    cpu: int
    """The CPU to which the process is pinned."""
    open_files: int = 0
    """RLIMIT_NOFILE; 0 to leave it unchanged."""
    options: dict[str, Any] = field(default_factory=lambda: dict(SERVER_OPTIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec(_Spec):
    """The legitimate client."""

    cpu: int
    """The CPU to which the process is pinned."""
    addrs: dict[str, str]
    """Addresses of the server, by protocol."""
    pace_s: float
    """Time between two requests of a session, whether or not answers arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSpec(_Spec):
    """The attackers."""

    attack: str
    """Name of the attack in ``toolkit.bench.hostile.attacks.ATTACKS``."""
    cpu: int
    """The CPU to which the process is pinned."""
    addrs: dict[str, str]
    """Addresses of the server, by protocol."""
    victims: dict[str, str]
    """The addresses that the legitimate client announces, by protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The resources that the server holds at one time."""

    rss_mib: float
    peak_rss_mib: float
    """Peak since the process started."""
    cpu_s: float
    """User and system time since the process started."""
    descriptors: int
    sessions: int
    """Sessions that are not closed, including STANDBY."""
    half_open_links: int
    queued_bytes: int
    """Bytes queued, built but not written, or unacknowledged."""
    throttled: int
    """Messages and bytes counted by the dispatch throttles."""
    received: dict[str, int]
    """Messages dispatched so far, by type."""
    faults: dict[str, int]
    """Faults so far, by reason."""
