"""The first line of each process of ``msgrlab bench hostile``, and the lines that it answers with."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from messenger.denc.entity import EntityName, EntityType
from messenger.link import Protocol
from toolkit.bench.cell import KIB, MIB
from toolkit.bench.identity import MESSAGE_TYPE

HOST = "127.0.0.1"
"""Of the server and of the legitimate client."""
ATTACKER_HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
"""The hosts that attackers dial from, in turn; loopback has all of 127.0.0.0/8."""

REQUEST, BIG_REQUEST, ONE_WAY, RECORDED = range(MESSAGE_TYPE, MESSAGE_TYPE + 4)
"""Types of messages: answered by its own data; answered by ``BIG_REPLY_BYTES``; not answered; not answered, and
sent once on the link that is recorded and replayed."""
BIG_REPLY_BYTES = 64 * KIB

CLIENTS: Mapping[Protocol, EntityName] = {
    Protocol.V2: EntityName(EntityType.CLIENT, 1),
    Protocol.V1: EntityName(EntityType.CLIENT, 2),
}
"""The legitimate client's name by protocol: a peer has one session, whatever protocol it dials by."""
FIRST_ATTACKER = 1000
"""Number of the first attacker's entity; each further link is the next one."""

THROTTLE_MIB = 32
SERVER_OPTIONS: Mapping[str, Any] = {
    "ms_dispatch_throttle_bytes": THROTTLE_MIB * MIB,
    "max_queued_bytes": 4 * MIB,
    "max_half_open_links": 512,
    "standby_timeout": 1.0,
}
"""The options of the attacked server that are not the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    key: str
    """The service key that tickets are sealed with, in its text form."""

    def as_json(self) -> str:
        """The line that :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """The spec in a line of :meth:`as_json`."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec(_Spec):
    """The attacked server."""

    cpu: int
    """The CPU to stay on."""
    open_files: int = 0
    """RLIMIT_NOFILE; 0 leaves it as it is."""
    options: dict[str, Any] = field(default_factory=lambda: dict(SERVER_OPTIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec(_Spec):
    """The legitimate client."""

    cpu: int
    """The CPU to stay on."""
    addrs: dict[str, str]
    """Where the server listens, by protocol."""
    pace_s: float
    """Pause between two requests of a session, whether answers come or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSpec(_Spec):
    """The attackers."""

    attack: str
    """Its name in ``toolkit.bench.hostile.attacks.ATTACKS``."""
    cpu: int
    """The CPU to stay on."""
    addrs: dict[str, str]
    """Where the server listens, by protocol."""
    victims: dict[str, str]
    """The addresses that the legitimate client announces, by protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the server holds at a moment."""

    rss_mib: float
    peak_rss_mib: float
    """Since the process started."""
    cpu_s: float
    """User and system time since the process started."""
    descriptors: int
    sessions: int
    """Those that are not closed, STANDBY included."""
    half_open_links: int
    queued_bytes: int
    """Queued, built but not written, or unacknowledged."""
    throttled: int
    """Messages and bytes that the dispatch throttles count."""
    received: dict[str, int]
    """Messages dispatched so far, by type."""
    faults: dict[str, int]
    """Faults so far, by reason."""
