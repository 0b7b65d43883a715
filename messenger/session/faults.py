"""The effects of a broken link on its session (docs/protocol.md §3.9, §4.11), in the order listed there."""

from typing import Protocol as Interface

from messenger.config import Config
from messenger.errors import Fault, FaultReason
from messenger.protocols import Protocol
from messenger.randomness import RandomSource
from messenger.session.events import EventKind
from messenger.session.session import Session
from messenger.session.states import Change, SessionState
from messenger.session.timers import Timers

REFUSALS = frozenset(
    {
        FaultReason.REFUSED,
        FaultReason.AUTH_DENIED,
        FaultReason.AUTH_METHOD,
        FaultReason.MISSING_FEATURES,
        FaultReason.PROTOCOL_VERSION,
        FaultReason.V1_PEER,
        FaultReason.V2_PEER,
        FaultReason.NOT_MSGR,
        FaultReason.BANNER,
        FaultReason.WRONG_TARGET,
    }
)
"""Faults that raise a refused event, while the session goes on dialling."""

FATAL = frozenset(
    {
        FaultReason.BANNER_FEATURES,
        FaultReason.PEER_TYPE,
        FaultReason.PEER_NUMBER,
        FaultReason.PEER_CLOSED,
        FaultReason.QUEUE_LIMIT,
    }
)
"""Faults that another dial cannot cure: the session ends with a reset event (§3.1, §4.2, §9 item 12)."""


_MOST_SHORT_LINKS = 8
"""Number of consecutive links that may break just after they opened before the next dial is delayed."""


class Keeper(Interface):
    """The interface of a messenger that a fault of a session uses."""

    config: Config
    rng: RandomSource
    timers: Timers

    def change_session(self, session: Session, change: Change, why: str, now: float) -> None:
        """Apply a change to a session's state and record it."""

    def session_event(self, session: Session, kind: EventKind, fault: Fault | None, now: float) -> None:
        """Raise an event of a session."""

    def settle_delayed(self, session: Session, *, deliver: bool) -> None:
        """Deliver or drop the messages that an injector delays."""

    def end_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session without an event."""

    def stop_session(self, session: Session, fault: Fault, now: float) -> None:
        """End a session and raise its reset event."""

    def dial(self, session: Session, now: float) -> None:
        """Dial a link for a session."""

    def redial(self, session: Session, now: float) -> None:
        """Dial again after a backoff."""


def session_fault(endpoint: Keeper, session: Session, fault: Fault, now: float, *, dialling: bool = False) -> None:
    """Let a session react to the fault of its link.

    Args:
        endpoint: the messenger of the session.
        session: the session whose link broke, or could not be opened.
        fault: the fault of the link.
        now: monotonic seconds.
        dialling: True if the handshake had not come far enough for a fault to end a lossy session.
    """
    state = session.state
    if state is SessionState.CLOSED:
        return
    hung_up_again = _hung_up_again(session, fault)
    session.last_fault = fault
    endpoint.settle_delayed(session, deliver=True)
    if fault.reason is FaultReason.SHUTDOWN:
        endpoint.end_session(session, fault, now)  # another shard reports that the queue is drained
        return
    establishing = state is SessionState.ESTABLISHING
    if establishing and not session.announced and not session.queue:
        endpoint.end_session(session, fault, now)  # the accept event was not raised yet
        return
    if fault.reason in FATAL or (session.lossy and (establishing or not dialling)):
        endpoint.stop_session(session, fault, now)
        return
    if (fault.reason in REFUSALS or hung_up_again) and state is not SessionState.READY:
        endpoint.session_event(session, EventKind.REFUSED, fault, now)
    session.is_reset_from_peer = False
    session.requeue_sent()
    why = str(fault)
    if session.policy.standby and not session.has_output and state is not SessionState.WAIT:
        endpoint.change_session(session, Change.REST, f"{why}; nothing to send", now)
    elif not session.dials:
        endpoint.change_session(session, Change.REST, f"{why}; only the peer can dial", now)
    elif state is SessionState.READY:
        session.connect_seq += 1
        session.backoff_s = 0.0
        _redial(endpoint, session, why, now)
    else:
        _back_off(endpoint, session, why, now)


def _hung_up_again(session: Session, fault: Fault) -> bool:
    """True if the peer has closed two dials in a row in the same state, so it will not give a reason.

    It may expect another nonce, for example, or a proxy may accept connections for a peer that is gone.
    """
    before = session.last_fault
    return fault.reason is FaultReason.EOF and before is not None and before == fault


def _redial(endpoint: Keeper, session: Session, why: str, now: float) -> None:
    """Dial at once after an open link broke, but back off if links keep breaking as soon as they open.

    They do if two processes use the same address, or if a message breaks each link on which it is replayed.
    Neither ends by itself, so the application gets a refused event.
    """
    config, short = endpoint.config, session.short_links
    short.count = short.count + 1 if now - short.opened_s < config.ms_initial_backoff else 0
    if short.count <= _MOST_SHORT_LINKS:
        short.pause_s = 0.0
        endpoint.change_session(session, Change.DIAL, f"{why}; dialling again", now)
        endpoint.dial(session, now)
        return
    pause_s = short.pause_s = min(short.pause_s * 2 or config.ms_initial_backoff, config.ms_max_backoff)
    first = f"; {session.queue.requeued[0][1]!r} is sent first on each" if session.queue.requeued else ""
    fault = Fault(FaultReason.SHORT_LIVED, f"{short.count} links in a row, the last one: {why}{first}")
    session.last_fault = fault
    endpoint.session_event(session, EventKind.REFUSED, fault, now)
    endpoint.change_session(session, Change.DIAL, f"{why}; dialling again in {pause_s:g} s", now)
    _dial_later(endpoint, session, pause_s, now)


def _dial_later(endpoint: Keeper, session: Session, pause_s: float, now: float) -> None:
    session.backoff_timer = endpoint.timers.at(now + pause_s, lambda then: endpoint.redial(session, then))


def _back_off(endpoint: Keeper, session: Session, why: str, now: float) -> None:
    """Back off after a failed dial: the delay doubles up to the maximum; a race loser waits for the maximum."""
    config = endpoint.config
    if session.state is SessionState.WAIT:
        pause_s = config.ms_max_backoff
    elif not session.backoff_s:
        pause_s = session.backoff_s = config.ms_initial_backoff
    else:
        pause_s = session.backoff_s = min(session.backoff_s * 2, config.ms_max_backoff)
    replacing = session.state is SessionState.REPLACING
    if replacing:
        # Both sides may have closed their dials for each other's. Without jitter both would dial again at the same
        # time, for ever.
        pause_s *= (1 + endpoint.rng.getrandbits(16) / 65536) / 2
    if session.server_cookie or (replacing and Protocol.of(session.target_addr) is Protocol.V1):
        # With v1 the higher connect_seq takes over the other link; two equal ones would keep replacing each other.
        session.connect_seq += 1
    if session.state is not SessionState.WAIT:
        endpoint.change_session(session, Change.DIAL, f"{why}; dialling again in {pause_s:g} s", now)
    _dial_later(endpoint, session, pause_s, now)


def wake(endpoint: Keeper, session: Session, now: float) -> None:
    """Dial if the session is in STANDBY and may dial, because there is something to send (§3.9)."""
    if session.state is not SessionState.STANDBY or not session.dials:
        return
    if session.server_cookie:
        session.connect_seq += 1
    endpoint.change_session(session, Change.DIAL, "something to send", now)
    endpoint.dial(session, now)
