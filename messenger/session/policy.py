"""Policies: what a session does after a fault, by the peer's entity type (docs/protocol.md §3.8)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from messenger.denc.entity import EntityType
from messenger.denc.features import Feature
from messenger.errors import LocalError, check_kind

if TYPE_CHECKING:
    from messenger.config import Config


@dataclass(frozen=True, slots=True)
class ThrottleLimit:
    """A throttle that a policy names; all policies of a messenger that name it share it (§3.10)."""

    name: str
    limit: int
    """Bytes or messages; 0 = no limit."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One row of the policy table."""

    name: str
    lossy: bool = False
    """A fault ends the session; nothing is replayed."""
    server: bool = False
    """This side never dials; it waits until the peer reconnects."""
    standby: bool = False
    """After a fault with an empty queue the session waits in STANDBY instead of dialling."""
    resetcheck: bool = False
    """Detect that the peer lost the session, and raise remote_reset."""
    register_lossy_clients: bool = True
    """An accepted lossy session is registered by the peer's address and replaced when the peer dials again."""
    features_required: int = 0
    """Peers that lack one of these feature bits are refused."""
    throttle_messages: ThrottleLimit | None = None
    """Limit for the number of messages of such peers that the application holds before reading pauses."""
    throttle_bytes: ThrottleLimit | None = None
    """Limit for the bytes of these messages."""

    def requiring(self, features: int) -> "Policy":
        """The same policy with more required feature bits."""
        return replace(self, features_required=self.features_required | features)

    def throttled(
        self, *, messages: ThrottleLimit | None = None, size_bytes: ThrottleLimit | None = None
    ) -> "Policy":
        """The same policy with these throttles."""
        return replace(self, throttle_messages=messages, throttle_bytes=size_bytes)


STATEFUL_SERVER = Policy("stateful_server", server=True, standby=True, resetcheck=True)
STATELESS_REGISTERED_SERVER = Policy("stateless_registered_server", lossy=True, server=True)
STATELESS_SERVER = Policy("stateless_server", lossy=True, server=True, register_lossy_clients=False)
LOSSLESS_PEER = Policy("lossless_peer", standby=True)
LOSSLESS_PEER_REUSE = Policy("lossless_peer_reuse", standby=True, resetcheck=True)
LOSSY_CLIENT = Policy("lossy_client", lossy=True)
LOSSLESS_CLIENT = Policy("lossless_client", resetcheck=True)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        STATEFUL_SERVER,
        STATELESS_REGISTERED_SERVER,
        STATELESS_SERVER,
        LOSSLESS_PEER,
        LOSSLESS_PEER_REUSE,
        LOSSY_CLIENT,
        LOSSLESS_CLIENT,
    )
}


@dataclass(slots=True)
class PolicySet:
    """The policy for each entity type of peers; ``default`` applies to all others."""

    default: Policy = LOSSLESS_CLIENT
    by_type: dict[EntityType, Policy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for policy in (self.default, *self.by_type.values()):
            check_kind("policy", policy, Policy, "a Policy, such as STATELESS_SERVER")

    def towards(self, peer: EntityType) -> Policy:
        """The policy for a peer of that type."""
        return self.by_type.get(peer, self.default)

    @classmethod
    def parse(cls, text: str, config: "Config | None" = None) -> "PolicySet":
        """Parse the text form of a set: ``lossless_peer client=stateless_server``, or ``osd public``.

        Args:
            text: the policy for all peers, then those for some entity types; or the name of a daemon's messenger.
            config: see :meth:`for_messenger`.

        Raises:
            LocalError: there is no such policy, entity type or messenger.
        """
        if text in MESSENGERS:
            return cls.for_messenger(text, config)
        default, *others = text.split() or [""]
        policies = cls(_by_name(default))
        for other in others:
            peer_type, _, name = other.partition("=")
            policies.by_type[EntityType.from_label(peer_type)] = _by_name(name)
        return policies

    @classmethod
    def for_messenger(cls, messenger: str, config: "Config | None" = None) -> "PolicySet":
        """The policies of one of the messengers in Ceph's daemons; :data:`MESSENGERS` lists their names.

        Args:
            messenger: for example ``osd public``.
            config: limits of the throttles that the policies name; without it the policies have no throttles.

        Raises:
            LocalError: no daemon has a messenger of that name.
        """
        row = MESSENGERS.get(messenger)
        if row is None:
            raise LocalError(f"no messenger {messenger!r}; known: {', '.join(MESSENGERS)}")
        policies = cls(row.default, dict(row.by_type))
        if config is not None:
            for throttling in row.throttles:
                policies.set_throttles(throttling, config)
        return policies

    def set_throttles(self, throttling: "Throttling", config: "Config") -> None:
        """Add throttles to the policy for an entity type.

        As in Ceph, if the type has no row, the default policy gets them, and so does every other type without a
        row.
        """
        policy = self.towards(throttling.peer).throttled(
            messages=_limit(throttling.messages, config), size_bytes=_limit(throttling.size_bytes, config)
        )
        if throttling.peer in self.by_type:
            self.by_type[throttling.peer] = policy
        else:
            self.default = policy


def _by_name(name: str) -> Policy:
    if name not in POLICIES:
        raise LocalError(f"unknown policy {name!r}; known: {', '.join(POLICIES)}")
    return POLICIES[name]


@dataclass(frozen=True, slots=True)
class Throttling:
    """Throttles for an entity type of peers, each as its name and the option with its limit."""

    peer: EntityType
    size_bytes: tuple[str, str] | None = None
    messages: tuple[str, str] | None = None


def _limit(throttle: tuple[str, str] | None, config: "Config") -> ThrottleLimit | None:
    if throttle is None:
        return None
    name, option = throttle
    return ThrottleLimit(name, getattr(config, option))


@dataclass(frozen=True, slots=True)
class MessengerPolicies:
    """The policies that a daemon gives to one of its messengers."""

    default: Policy
    by_type: Mapping[EntityType, Policy] = field(default_factory=dict)
    throttles: tuple[Throttling, ...] = ()


_LUMINOUS = 1 << 21
"""Bit 21 alone: in requirements, Ceph omits the bits that distinguish the uses of a reused bit (§2.1)."""
_OSD_REQUIRED = Feature.UID | Feature.PGID64 | Feature.OSDENC
_MON, _OSD, _MDS, _MGR, _CLIENT = (
    EntityType.MON,
    EntityType.OSD,
    EntityType.MDS,
    EntityType.MGR,
    EntityType.CLIENT,
)
_MON_DAEMON_BYTES = ("mon_daemon_bytes", "mon_daemon_bytes")

MESSENGERS: Mapping[str, MessengerPolicies] = {
    "mon": MessengerPolicies(
        STATELESS_SERVER,
        {
            _MON: LOSSLESS_PEER_REUSE.requiring(_LUMINOUS),
            _OSD: STATELESS_SERVER.requiring(_LUMINOUS),
            _CLIENT: STATELESS_SERVER,
            _MDS: STATELESS_SERVER,
        },
        (
            Throttling(_CLIENT, size_bytes=("mon_client_bytes", "mon_client_bytes")),
            Throttling(_OSD, size_bytes=_MON_DAEMON_BYTES),
            Throttling(_MDS, size_bytes=_MON_DAEMON_BYTES),
        ),
    ),
    "osd public": MessengerPolicies(
        STATELESS_REGISTERED_SERVER,
        {_MON: LOSSY_CLIENT.requiring(_OSD_REQUIRED), _MGR: LOSSY_CLIENT.requiring(_OSD_REQUIRED)},
        (
            Throttling(
                _CLIENT,
                size_bytes=("osd_client_bytes", "osd_client_message_size_cap"),
                messages=("osd_client_messages", "osd_client_message_cap"),
            ),
        ),
    ),
    "osd cluster": MessengerPolicies(
        STATELESS_SERVER,
        {_MON: LOSSY_CLIENT, _OSD: LOSSLESS_PEER.requiring(_OSD_REQUIRED), _CLIENT: STATELESS_SERVER},
    ),
    "osd heartbeat client": MessengerPolicies(LOSSLESS_CLIENT, {_OSD: LOSSY_CLIENT}),
    "osd heartbeat server": MessengerPolicies(LOSSLESS_CLIENT, {_OSD: STATELESS_SERVER}),
    "osd objecter": MessengerPolicies(LOSSY_CLIENT.requiring(Feature.OSDREPLYMUX)),
    "mds": MessengerPolicies(
        LOSSY_CLIENT.requiring(Feature.OSDREPLYMUX),
        {
            _MON: LOSSY_CLIENT.requiring(Feature.UID | Feature.PGID64),
            _MDS: LOSSLESS_PEER.requiring(Feature.UID),
            _CLIENT: STATEFUL_SERVER,
        },
    ),
    "mgr": MessengerPolicies(
        STATELESS_SERVER,
        {
            _OSD: STATELESS_SERVER.requiring(_LUMINOUS),
            _MON: LOSSY_CLIENT.requiring(Feature.UID | Feature.PGID64),
            _MDS: STATELESS_SERVER.requiring(_LUMINOUS),
        },
    ),
    "librados": MessengerPolicies(LOSSY_CLIENT.requiring(Feature.OSDREPLYMUX)),
    "mon client bootstrap": MessengerPolicies(LOSSLESS_CLIENT),
}
"""The second table of §3.8. The default of the heartbeat messengers is Ceph's, which sets none for them."""
