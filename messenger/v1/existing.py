"""Decisions on a CONNECT: the steps of docs/protocol.md §3.4, in the order given there.

The functions here only decide; the acceptor carries the decisions out.
"""

from dataclasses import dataclass
from enum import Enum, auto

from messenger.cephx.exchange import AuthMethod
from messenger.config import Config
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.rules import DEFAULT_RULES, RuleOptions
from messenger.session.existing import yields
from messenger.session.policy import Policy
from messenger.session.session import Session
from messenger.session.states import SessionState
from messenger.v1.wire import Connect

_INTERNAL_VERSIONS = {EntityType.MON: 13, EntityType.OSD: 10, EntityType.MDS: 36}
"""Protocol versions between two entities of the same type (§3.1)."""
_PUBLIC_VERSIONS = {EntityType.MON: 15, EntityType.OSD: 24, EntityType.MDS: 32}
"""Protocol versions of servers for peers of another type."""


class Verdict(Enum):
    """What happens to the incoming link and the existing session."""

    BADPROTOVER = auto()
    """Refuse: the protocol versions differ."""
    FEATURES = auto()
    """Refuse: the connector lacks required features."""
    OPEN = auto()
    """Open the session on the incoming link: a new one, or the one that the link has taken over."""
    STOP_EXISTING = auto()
    """End the existing session with a reset event, then as OPEN."""
    REPLACE = auto()
    """Let the incoming link take over the existing session; the connector tries again after RETRY_GLOBAL."""
    REPLACE_FRESH = auto()
    """As REPLACE; the connector numbers its messages from 1 again."""
    REPLACE_RESET = auto()
    """As REPLACE_FRESH, after a full reset of the existing session: the peer lost its state."""
    RETRY_GLOBAL = auto()
    """Answer RETRY_GLOBAL with the existing peer_global_seq."""
    RETRY_SESSION = auto()
    """Answer RETRY_SESSION with the existing connect_seq plus one."""
    WAIT = auto()
    """Answer WAIT: our dial wins the race."""
    RESETSESSION = auto()
    """Answer RESETSESSION: this side has lost the session that the connector wants to continue."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, and its reason in one line for the history."""

    verdict: Verdict
    why: str


def protocol_version(me: EntityType, peer: EntityType, *, connecting: bool) -> int:
    """The protocol version that ``me`` expects between these entity types (§3.1)."""
    if me is peer:
        return _INTERNAL_VERSIONS.get(me, 0)
    return _PUBLIC_VERSIONS.get(peer if connecting else me, 0)


def required_features(config: Config, policy: Policy, connect: Connect) -> int:
    """The features that a connector must support: those of the policy and, with cephx, of the options (step 2)."""
    required = policy.features_required
    if connect.authorizer_protocol == AuthMethod.CEPHX:
        required |= config.cephx_requirements.features(connect.host_type)
    return required


def judge_terms(connect: Connect, version: int, required: int) -> Decision | None:
    """Check versions and features (steps 1 to 3); None if they are acceptable."""
    if connect.protocol_version != version:
        return Decision(
            Verdict.BADPROTOVER, f"protocol version {connect.protocol_version}, this side has {version}"
        )
    missing = required & ~connect.features
    if missing:
        return Decision(Verdict.FEATURES, f"the peer lacks 0x{missing:x}")
    return None


def judge_connect(
    existing: Session | None,
    connect: Connect,
    policy: Policy,
    *,
    peer_addr: EntityAddr,
    my_addr: EntityAddr,
    replacing: bool,
    rules: RuleOptions = DEFAULT_RULES,
) -> Decision:
    """Decide on a CONNECT whose authorizer is valid (steps 5 to 8).

    Args:
        existing: the v1 session registered for the peer's address, unless it is the link's own.
        connect: the received frame.
        policy: policy for the connector's type.
        peer_addr: the connector's address, of type LEGACY.
        my_addr: this messenger's address, of type LEGACY.
        replacing: True if the link has taken over a session already.
        rules: settings of the disputed rules.
    """
    if policy.server and policy.lossy and not policy.register_lossy_clients:
        return Decision(Verdict.OPEN, "lossy clients are not registered")
    if existing is None:
        if connect.connect_seq > 0 and not replacing:
            return Decision(Verdict.RESETSESSION, f"connect_seq {connect.connect_seq} of a session not known here")
        return Decision(Verdict.OPEN, "the session goes on" if replacing else "no session with this peer")
    if existing.state is SessionState.CLOSED:
        return Decision(Verdict.OPEN, "the existing session is closed")
    if existing.state is SessionState.REPLACING:
        return Decision(Verdict.RETRY_GLOBAL, "another link is taking over")
    if connect.global_seq < existing.peer_global_seq:
        return Decision(
            Verdict.RETRY_GLOBAL, f"global_seq {connect.global_seq} is behind {existing.peer_global_seq}"
        )
    if existing.lossy:
        return Decision(Verdict.STOP_EXISTING, "the existing session is lossy")
    peer_wins = peer_addr.sort_key() < my_addr.sort_key()
    return _judge_attempt(existing, connect, policy, rules, peer_wins=peer_wins)


def _judge_attempt(
    existing: Session, connect: Connect, policy: Policy, rules: RuleOptions, *, peer_wins: bool
) -> Decision:
    """Compare the two connect_seq (steps 7.5 to 7.8)."""
    theirs, mine = connect.connect_seq, existing.connect_seq
    if theirs == 0 and mine > 0:
        if not existing.confirmed:
            return Decision(Verdict.REPLACE, "connect_seq 0: establishment was interrupted")
        verdict = Verdict.REPLACE_RESET if policy.resetcheck else Verdict.REPLACE_FRESH
        return Decision(verdict, f"connect_seq 0 against {mine}: the peer lost its session")
    if theirs < mine:
        return Decision(Verdict.RETRY_SESSION, f"connect_seq {theirs} is behind {mine}")
    if theirs == mine:
        if _is_open(existing) or existing.state is SessionState.STANDBY:
            if policy.resetcheck and mine == 0:
                return Decision(Verdict.REPLACE, f"the existing session is {existing.state} and never was open")
            return Decision(Verdict.RETRY_SESSION, f"the existing session is {existing.state} at {mine}")
        return _judge_race(existing, rules, peer_wins=peer_wins)
    if policy.resetcheck and mine == 0:
        return Decision(Verdict.RESETSESSION, f"connect_seq {theirs} of a session lost here")
    return Decision(Verdict.REPLACE, f"connect_seq {theirs} is ahead of {mine}")


def _is_open(session: Session) -> bool:
    """True if the link is OPENED; a session that is READY may still wait for the peer's in_seq."""
    return session.state is SessionState.READY and session.link is not None and session.link.open


def _judge_race(existing: Session, rules: RuleOptions, *, peer_wins: bool) -> Decision:
    if peer_wins:
        return Decision(Verdict.REPLACE, "connection race: the peer's address is the lower one")
    if existing.policy.server:
        return Decision(Verdict.REPLACE, "connection race: a server never dials")
    if yields(existing, rules):
        return Decision(Verdict.REPLACE, "connection race: the dial of this side gets nowhere")
    return Decision(Verdict.WAIT, "connection race: this side's address is the lower one")
