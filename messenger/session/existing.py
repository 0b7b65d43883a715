"""Decisions on an incoming connection from a peer that has a session (docs/protocol.md §4.9, in its order).

The functions here only decide; the acceptor carries the decisions out.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from messenger.denc.address import AddrVec, EntityAddr
from messenger.rules import DEFAULT_RULES, RuleOptions
from messenger.session.session import Session
from messenger.session.states import SessionState

_RECONNECTION_RACE_WON = "reconnection race: this side's address is the lower one"


class ClientIdent(Protocol):
    """The fields of a CLIENT_IDENT on which the decision depends."""

    global_seq: int
    client_cookie: int
    addrs: AddrVec


class SessionReconnect(Protocol):
    """The fields of a SESSION_RECONNECT on which the decision depends."""

    global_seq: int
    connect_seq: int
    client_cookie: int
    server_cookie: int


class Verdict(Enum):
    """What happens to the incoming link and the existing session."""

    OPEN = auto()
    """Open a new session on the incoming link."""
    STOP_EXISTING = auto()
    """End the existing session with a reset event, then as OPEN."""
    CLOSE_INCOMING = auto()
    """Drop the incoming link silently: it is an outdated attempt."""
    REUSE = auto()
    """Let the incoming link take over the existing session."""
    REUSE_RESET = auto()
    """As REUSE, after a full reset of the existing session: the peer lost its state."""
    WAIT = auto()
    """Answer WAIT: our dial wins the race."""
    RESET = auto()
    """Answer SESSION_RESET (see ``full``)."""
    RETRY = auto()
    """Answer SESSION_RETRY with the existing connect_seq."""
    RETRY_GLOBAL = auto()
    """Answer SESSION_RETRY_GLOBAL with the existing peer_global_seq."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, and its reason in one line for the history."""

    verdict: Verdict
    why: str
    full: bool = False
    """With RESET: True if the peer must drop its queues too."""


def judge_client_ident(
    existing: Session | None,
    ident: ClientIdent,
    my_addr: EntityAddr,
    rules: RuleOptions = DEFAULT_RULES,
    *,
    sent_later: bool = False,
) -> Decision:
    """Decide on a CLIENT_IDENT.

    Args:
        existing: the session registered for the peer's addresses.
        ident: the received frame.
        my_addr: this messenger's msgr2 address.
        rules: settings of the disputed rules.
        sent_later: True if the peer certainly sent the frame after its last known global_seq had arrived here.
    """
    if existing is None or existing.state is SessionState.CLOSED:
        return Decision(Verdict.OPEN, "no session with this peer")
    if existing.state is SessionState.REPLACING:
        return Decision(Verdict.WAIT, "another link is taking over")
    outdated = _judge_outdated(existing, ident, rules, sent_later=sent_later)
    if outdated is not None:
        return outdated
    if existing.lossy:
        return Decision(Verdict.STOP_EXISTING, "the existing session is lossy")
    if existing.server_cookie and existing.client_cookie and existing.client_cookie != ident.client_cookie:
        verdict = Verdict.REUSE_RESET if existing.policy.resetcheck else Verdict.REUSE
        return Decision(verdict, "another client_cookie: the peer lost its session")
    if existing.client_cookie == ident.client_cookie:
        return Decision(Verdict.REUSE, "the same client_cookie: establishment was interrupted")
    if existing.state in {SessionState.READY, SessionState.STANDBY}:
        return Decision(Verdict.REUSE, f"the existing session is {existing.state}")
    peer_addr = ident.addrs.msgr2_addr()
    if peer_addr.sort_key() < my_addr.sort_key():
        return Decision(Verdict.REUSE, "connection race: the peer's address is the lower one")
    if existing.policy.server:
        return Decision(Verdict.REUSE, "connection race: a server never dials")
    if yields(existing, rules):
        return Decision(Verdict.REUSE, "connection race: the dial of this side gets nowhere")
    return Decision(Verdict.WAIT, "connection race: this side's address is the lower one")


def _judge_outdated(
    existing: Session, ident: ClientIdent, rules: RuleOptions, *, sent_later: bool
) -> Decision | None:
    """Decide on a global_seq below the remembered one; None if it is not below, or does not matter.

    A peer has one dial at a time for a session. It closes that dial before it begins another one or accepts one of
    ours, and it numbers dials in the order in which it begins them. So the process that sent the higher global_seq
    had abandoned this attempt before. If the frame was sent later, a process without that number sent it: the peer
    has restarted.
    """
    if existing.peer_global_seq <= ident.global_seq:
        return None
    behind = f"global_seq {ident.global_seq} is behind {existing.peer_global_seq}"
    cookies = {existing.client_cookie, ident.client_cookie}
    if rules.restarted_peer == "proven" and sent_later and (len(cookies) > 1 or 0 in cookies):
        return None
    settled = existing.state in {SessionState.READY, SessionState.STANDBY}
    if rules.restarted_peer == "guess" and len(cookies) > 1 and 0 not in cookies and not settled:
        return Decision(Verdict.STOP_EXISTING, f"another client_cookie, {behind}: the peer has restarted")
    return Decision(Verdict.CLOSE_INCOMING, behind)


def yields(existing: Session, rules: RuleOptions) -> bool:
    """True if this side yields although it won the race, because the peer waited for its dial in vain."""
    return rules.race_winner == "yields" and existing.dial_is_stuck


def judge_reconnect(
    existing: Session | None,
    frame: SessionReconnect,
    my_addr: EntityAddr,
    rules: RuleOptions = DEFAULT_RULES,
    *,
    resetcheck: bool,
) -> Decision:
    """Decide on a SESSION_RECONNECT; ``resetcheck`` is that of the policy towards the peer's type."""
    if existing is None or existing.state is SessionState.CLOSED:
        return Decision(Verdict.RESET, "no session with this peer", full=True)
    if existing.state is SessionState.REPLACING:
        return Decision(Verdict.RETRY_GLOBAL, "another link is taking over")
    if existing.client_cookie != frame.client_cookie:
        return Decision(Verdict.RESET, "another client_cookie", full=resetcheck)
    if existing.server_cookie == 0:
        return Decision(Verdict.RESET, "SERVER_IDENT of that session was never seen here")
    if existing.server_cookie != frame.server_cookie and rules.reconnect_cookies == "both":
        return _judge_two_cookies(existing, my_addr, rules)
    if existing.peer_global_seq > frame.global_seq:
        return Decision(
            Verdict.RETRY_GLOBAL, f"global_seq {frame.global_seq} is behind {existing.peer_global_seq}"
        )
    if existing.connect_seq > frame.connect_seq:
        return Decision(Verdict.RETRY, f"connect_seq {frame.connect_seq} is behind {existing.connect_seq}")
    if existing.connect_seq == frame.connect_seq and not existing.policy.server:
        if _peer_is_lower(existing, my_addr):
            return Decision(Verdict.REUSE, "reconnection race: the peer's address is the lower one")
        if yields(existing, rules):
            return Decision(Verdict.REUSE, "reconnection race: the dial of this side gets nowhere")
        return Decision(Verdict.WAIT, _RECONNECTION_RACE_WON)
    return Decision(Verdict.REUSE, "the session goes on")


def _judge_two_cookies(existing: Session, my_addr: EntityAddr, rules: RuleOptions) -> Decision:
    """Decide on a SESSION_RECONNECT with another server_cookie: two dials have taken each other over.

    The session is reset, because a CLIENT_IDENT of that race may still arrive, and only the global_seq of a new
    CLIENT_IDENT distinguishes it. If both sides dial, the dial from the lower address starts the new session: if
    both started one, they would keep taking each other over, on a slow link for ever.
    """
    dials = existing.state is SessionState.CONNECTING and existing.link is not None
    if dials and not _peer_is_lower(existing, my_addr) and not yields(existing, rules):
        return Decision(Verdict.WAIT, _RECONNECTION_RACE_WON)
    return Decision(Verdict.RESET, "another server_cookie: the peer never saw SERVER_IDENT of this session")


def _peer_is_lower(existing: Session, my_addr: EntityAddr) -> bool:
    return existing.peer_addrs.msgr2_addr().sort_key() <= my_addr.sort_key()
