"""What a seed draws before the run: the nodes, their protocols, and the kinds of faults that may come.

This is swarm testing: each seed has only some of the options and about half of the kinds of faults, because a run
with all of them at once would seldom reach the rare states that two of them lead to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

from messenger.cephx.ciphers import KeyType
from messenger.link import Protocol
from messenger.session.policy import POLICIES
from toolkit.lab.ways import Way

_T = TypeVar("_T")


class Size(StrEnum):
    """How large a run is."""

    SMALL = "small"
    """Two or three nodes, about thirty messages, up to five faults."""
    CLUSTER = "cluster"
    """Eight servers, thirty-two clients, about a thousand messages."""


class Fault(StrEnum):
    """Kinds of faults."""

    CUT = "cut"
    CUT_FRAME = "cut_frame"
    CUT_BYTE = "cut_byte"
    HALF_OPEN = "half_open"
    HALF_CLOSE = "half_close"
    PARTITION = "partition"
    ONE_WAY = "one_way"
    REFUSE = "refuse"
    SLOW = "slow"
    DELAY = "delay"
    LATE_DIAL = "late_dial"
    FREEZE = "freeze"
    CRASH = "crash"
    RENAME = "rename"
    """A crash after which the node has another nonce."""
    MARK_DOWN = "mark_down"
    HOLD = "hold"
    """The application keeps delivered messages for a while."""
    INTERCEPT = "intercept"
    INJECT = "inject"
    """The ``ms_inject`` options of the messengers, from the start to the end of the faults."""
    CONFIGURE = "configure"


class Motif(StrEnum):
    """Sequences of operations that lead close to rare states (``motifs.py``), at most one kind in a run."""

    WINNER_DIES = "winner_dies"
    CROSSED = "crossed"
    ANSWER_HELD = "answer_held"
    CUT_IN_REPLAY = "cut_in_replay"
    WRONG_TARGET = "wrong_target"
    DIALS_AGAIN = "dials_again"
    STOPPED_HANDSHAKE = "stopped_handshake"
    ROTATED = "rotated"
    """Rotated service keys; this kind and the next are for nodes whose tickets expire."""
    SKEWED = "skewed"


TICKET_MOTIFS = frozenset({Motif.ROTATED, Motif.SKEWED})
_CHANCE_OF_TICKETS = 0.15
_CHANCE_OF_MOTIF = 0.2
"""The probability of a motif if tickets do not expire."""
ENDING_TICKETS: Mapping[str, Any] = {"mints": {"validity_s": 120.0, "keeps": True}}
"""``auth`` of nodes whose tickets expire: a quarter of a ticket's life is longer than any frame takes."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Types of the nodes on both sides of a session, and their policies."""

    name: str
    dialler: str
    """Policy of the nodes that dial."""
    acceptor: str
    """Policy of the nodes that are dialled; the same for peers."""
    entities: tuple[str, str]
    """Entity types of the dialling and the accepting nodes."""
    weight: int

    @property
    def peers(self) -> bool:
        """True if both sides dial."""
        return not POLICIES[self.acceptor].server

    @property
    def lossy(self) -> bool:
        """True if a fault ends the sessions."""
        return POLICIES[self.dialler].lossy


ROLES = (
    Roles("peers", "lossless_peer", "lossless_peer", ("osd", "osd"), 4),
    Roles("reuse", "lossless_peer_reuse", "lossless_peer_reuse", ("mon", "mon"), 3),
    Roles("stateful", "lossless_client", "stateful_server", ("client", "mds"), 4),
    Roles("registered", "lossy_client", "stateless_registered_server", ("client", "osd"), 2),
    Roles("stateless", "lossy_client", "stateless_server", ("client", "mgr"), 1),
)
_INJECTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "sockets": [{"ms_inject_socket_failures": count} for count in (15, 50, 200)],
    "delays": [{"ms_inject_internal_delays": delay_s} for delay_s in (0.002, 0.1)],
    "late": [
        {"ms_inject_delay_type": "osd client mds", "ms_inject_delay_probability": 0.3, "ms_inject_delay_max": 0.5}
    ],
    "congestion": [{"ms_inject_network_congestion": count} for count in (2, 10)],
}
NO_INJECTION: Mapping[str, Any] = {
    "ms_inject_socket_failures": 0,
    "ms_inject_internal_delays": 0.0,
    "ms_inject_delay_type": "",
    "ms_inject_delay_probability": 0.0,
    "ms_inject_network_congestion": 0,
}


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One node of a run."""

    name: str
    entity: str
    policy: str
    listens: bool
    options: Mapping[str, Any]
    """Config options that differ from their defaults."""


@dataclass(frozen=True, slots=True)
class Login:
    """A monitor at which all nodes log in before they use each other (docs/protocol.md §5.6)."""

    method: str
    """The method that the monitor requires: cephx or none."""
    offers: tuple[str, ...]
    """The methods that nodes offer, the preferred one first."""
    auth_ttl_s: float
    """Validity of AUTH tickets, which prove a global_id."""
    service_ttl_s: float
    """Validity of tickets for services, and the period of their keys."""


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that a seed draws before the schedule."""

    size: Size
    way: Way
    roles: Roles
    nodes: tuple[DrawnNode, ...]
    faults: tuple[Fault, ...]
    """The kinds of faults that may come."""
    injections: Mapping[str, Any] = field(default_factory=dict)
    motif: Motif | None = None
    both_protocols: bool = False
    """True if listening nodes listen for the other protocol as well."""
    login: Login | None = None
    """None if nodes make their own tickets."""

    @property
    def protocols(self) -> str:
        """The protocols of listening nodes, as :meth:`Lab.node` takes them."""
        return "v2 v1" if self.both_protocols else self.way.protocol.value

    @property
    def auth(self) -> Mapping[str, Any]:
        """The ``auth`` of all nodes; see ``toolkit/node/auth.py``."""
        return ENDING_TICKETS if self.motif in TICKET_MOTIFS else {}

    @property
    def diallers(self) -> list[str]:
        """Names of the nodes that dial."""
        return [node.name for node in self.nodes if self.roles.peers or node.policy == self.roles.dialler]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every pair of nodes that may have a session, the dialling node first; of peers in both orders."""
        if self.roles.peers:
            return [(a.name, b.name) for a in self.nodes for b in self.nodes if a is not b]
        servers = [node.name for node in self.nodes if node.policy == self.roles.acceptor]
        return [(client, server) for client in self.diallers for server in servers]

    def option(self, name: str, default: float) -> float:
        """The largest value that any node has for a numeric option."""
        return max(float(node.options.get(name, default)) for node in self.nodes)

    def describe(self) -> dict[str, Any]:
        """The options as JSON values."""
        return {
            "size": self.size.value,
            "way": self.way.name,
            "roles": self.roles.name,
            "nodes": {node.name: {"policy": node.policy, **node.options} for node in self.nodes},
            "faults": [fault.value for fault in self.faults],
            "injections": dict(self.injections),
            "motif": self.motif.value if self.motif else None,
            "both_protocols": self.both_protocols,
            "login": asdict(self.login) if self.login else None,
        }


def one_of(rng: Random, *choices: tuple[_T, int]) -> _T:
    """Draw one of the choices, with probabilities in proportion to their weights."""
    left = rng.random() * sum(weight for _, weight in choices)
    for choice, weight in choices:
        left -= weight
        if left < 0:
            return choice
    return choices[-1][0]


def chance(rng: Random, probability: float) -> bool:
    """Draw True with this probability."""
    return rng.random() < probability


def draw_options(rng: Random, size: Size = Size.SMALL) -> Options:
    """Draw everything but the schedule."""
    roles = one_of(rng, *((roles, roles.weight) for roles in ROLES if size is Size.SMALL or not roles.peers))
    way = _draw_way(rng)
    faults = tuple(fault for fault in Fault if chance(rng, 0.5)) or (Fault.CUT,)
    injections: dict[str, Any] = {}
    if Fault.INJECT in faults and chance(rng, 0.5):
        for kind in _INJECTIONS.values():
            if chance(rng, 0.4):
                injections |= rng.choice(kind)
    shared = _draw_shared(rng) | injections
    nodes = _small(rng, roles, way, shared) if size is Size.SMALL else _cluster(rng, roles, way, shared)
    motif = _draw_motif(rng, roles) if size is Size.SMALL else None
    return Options(size, way, roles, nodes, faults, injections, motif)


def _draw_motif(rng: Random, roles: Roles) -> Motif | None:
    if chance(rng, _CHANCE_OF_TICKETS):
        return one_of(rng, (Motif.ROTATED, 2), (Motif.SKEWED, 1))
    if not chance(rng, _CHANCE_OF_MOTIF):
        return None
    if roles.lossy:
        return one_of(rng, (Motif.WRONG_TARGET, 1), (Motif.DIALS_AGAIN, 1), (Motif.STOPPED_HANDSHAKE, 2))
    return one_of(
        rng,
        (Motif.WINNER_DIES, 4 if roles.peers else 0),
        (Motif.CROSSED, 3 if roles.peers else 0),
        (Motif.ANSWER_HELD, 3),
        (Motif.CUT_IN_REPLAY, 2),
        (Motif.WRONG_TARGET, 2),
        (Motif.STOPPED_HANDSHAKE, 2),
    )


def _draw_way(rng: Random) -> Way:
    protocol = one_of(rng, (Protocol.V1, 3), (Protocol.V2, 7))
    mode = "crc" if protocol is Protocol.V1 else one_of(rng, ("crc", 4), ("secure", 4), ("compressed", 2))
    key_type = one_of(rng, (KeyType.AES, 3), (KeyType.AES256KRB5, 1))
    return Way(protocol, mode, key_type, one_of(rng, (0, 6), (1, 1), (2, 2), (3, 1)))


def _draw_shared(rng: Random) -> dict[str, Any]:
    """Draw the options that all nodes share."""
    options: dict[str, Any] = {
        "ms_max_backoff": rng.choice((0.5, 2.0, 5.0, 15.0)),
        "ms_connection_ready_timeout": rng.choice((2.0, 10.0)),
    }
    if chance(rng, 0.1):
        options["ms_connection_idle_timeout"] = 3.0
    if chance(rng, 0.15):
        options["write_ahead_bytes"] = 2000
    if chance(rng, 0.1):
        options["dispatch_by_priority"] = True
    return options


def _draw_own(rng: Random, way: Way) -> dict[str, Any]:
    """Draw the options of a single node."""
    options: dict[str, Any] = {}
    if chance(rng, 0.2):
        options["ms_dispatch_throttle_bytes"] = rng.choice((500, 5000))
    if way.protocol is Protocol.V2 and chance(rng, 0.25):
        options["msgr2_features"] = rng.choice((0, 1, 2))
    if way.mode == "compressed":
        options["ms_osd_compression_algorithm"] = rng.choice(("snappy", "lz4", "zstd", "lz4 snappy"))
        if chance(rng, 0.15):
            options["ms_osd_compress_mode"] = "none"
    return options


def _small(rng: Random, roles: Roles, way: Way, shared: Mapping[str, Any]) -> tuple[DrawnNode, ...]:
    count = 3 if chance(rng, 0.2) else 2
    diallers = count if roles.peers else count - 1
    return tuple(
        _node(rng, roles, way, shared, name, number, dials=number < diallers)
        for number, name in enumerate("abc"[:count])
    )


def _cluster(rng: Random, roles: Roles, way: Way, shared: Mapping[str, Any]) -> tuple[DrawnNode, ...]:
    clients = [_node(rng, roles, way, shared, f"c{number}", number, dials=True) for number in range(32)]
    servers = [_node(rng, roles, way, shared, f"s{number}", number, dials=False) for number in range(8)]
    return (*clients, *servers)


def _node(
    rng: Random, roles: Roles, way: Way, shared: Mapping[str, Any], name: str, number: int, *, dials: bool
) -> DrawnNode:
    compressed = way.mode == "compressed"  # only OSDs compress
    entity = "osd" if compressed else roles.entities[0 if dials else 1]
    first = 0 if dials else 100
    return DrawnNode(
        name,
        f"{entity}.{first + number}",
        roles.dialler if dials else roles.acceptor,
        listens=roles.peers or not dials,
        options={**shared, **_draw_own(rng, way)},
    )
