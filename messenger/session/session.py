"""A session: the state that survives links (docs/protocol.md §3.6, §4.9).

This file contains the state and its bookkeeping. ``faults.py`` handles faults; ``existing.py`` decides on incoming
connections of a peer that has a session.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import Fault, FaultReason, LocalError, PeerError
from messenger.session.policy import Policy
from messenger.session.queue import OutQueue
from messenger.session.states import TRANSITIONS, Change, SessionState
from messenger.session.timers import Timer

if TYPE_CHECKING:
    from messenger.session.carrier import Carrier
    from messenger.session.throttle import Throttle, Throttles


__all__ = ["IoState", "Session", "SessionState", "ShortLinks"]

_SEQ_LIMIT = 1 << 63
"""Largest in_seq of a peer that is adopted, so that our own seqs cannot exceed 64 bits."""


@dataclass(slots=True)
class ShortLinks:
    """Consecutive links that broke just after they had opened."""

    opened_s: float = 0.0
    """Time at which the session's newest link opened."""
    count: int = 0
    pause_s: float = 0.0
    """Delay in seconds after the last of them; 0 while there are few."""


class IoState(StrEnum):
    """State of the io half of a session, with crimson's names (§4.12)."""

    NONE = "none"
    """No shard has started it yet."""
    DELAY = "delay"
    """Messages wait for a link."""
    OPEN = "open"
    """Messages flow."""
    DROP = "drop"
    """The session is closed."""
    SWITCHED = "switched"
    """It has moved to another shard."""


class Session:
    """One end of a session with one peer."""

    __slots__ = (
        "ack_due",
        "acked_keepalive_sent_s",
        "acked_seq",
        "announced",
        "anonymous",
        "awaited",
        "backoff_s",
        "backoff_timer",
        "client_cookie",
        "confirmed",
        "connect_seq",
        "disposable",
        "features",
        "global_seq",
        "guarded",
        "id",
        "in_seq",
        "is_reset_from_peer",
        "keepalive_acked_s",
        "keepalive_due",
        "keepalive_seen_s",
        "last_fault",
        "link",
        "local",
        "lossy",
        "old_messages",
        "out_seq",
        "peer_addrs",
        "peer_auth_name",
        "peer_global_seq",
        "peer_name",
        "peer_seq_at",
        "peer_type",
        "peer_waits",
        "policy",
        "queue",
        "queued_s",
        "race_dial_failed",
        "reset_reported",
        "server_cookie",
        "short_links",
        "skipped_messages",
        "standby_timer",
        "state",
        "stint",
        "successor",
        "target_addr",
        "user",
    )

    def __init__(
        self, session_id: int, peer_type: EntityType, peer_addrs: AddrVec, target_addr: EntityAddr, policy: Policy
    ) -> None:
        self.id = session_id
        self.peer_type = peer_type
        self.peer_name = EntityName(peer_type)
        self.peer_addrs = peer_addrs
        self.peer_auth_name: AuthName | None = None
        """The entity as which the peer authenticated when it dialled."""
        self.target_addr = target_addr
        """The address that this side dials."""
        self.policy = policy
        self.lossy = policy.lossy
        """True if a fault ends the session: as the server decided, or as the policy says before that."""
        self.disposable = False
        """True if a fault shall end the session, whatever the server decides."""
        self.guarded = False
        """True if sending needs checks: the session is closed or closing, or faults are injected."""
        self.anonymous = False
        """True if the session cannot be found by the peer's address."""
        self.local = False
        """True for the loopback session, which delivers what is sent and has no link."""
        self.state = SessionState.CONNECTING  # changed by ``change`` only
        self.link: Carrier | None = None
        """The link that carries the session, or that is being opened for it."""
        self.client_cookie = self.server_cookie = 0
        self.connect_seq = self.global_seq = self.peer_global_seq = 0
        self.announced = False
        """True if the application knows the session: it dialled it or got an accept event."""
        self.awaited = 0
        """Number of callers that wait until the session is READY."""
        self.confirmed = False
        """True if both sides have regarded it as open since it began or was last reset."""
        self.reset_reported = False
        """True if a remote_reset event was raised, and no opening since."""
        self.is_reset_from_peer = False
        """v1: True if the link that is taking over resets the session (§3.4)."""
        self.peer_seq_at = 0
        """v2: value of the messenger's logical clock at which ``peer_global_seq`` arrived."""
        self.peer_waits = False
        """True if the peer got WAIT and expects this side to dial."""
        self.race_dial_failed = False
        """True if a dial of this side has failed while the peer waited for it."""
        self.features = 0
        self.in_seq = self.out_seq = self.acked_seq = 0
        self.queue = OutQueue()
        self.queued_s: float | None = None
        """Time since which the queue has messages that could not be sent at once."""
        self.ack_due = 0
        """Number of messages received since the last acknowledged one."""
        self.keepalive_due = False
        self.keepalive_acked_s = 0.0
        """Unix time at which the newest keepalive that the peer echoed was sent; 0 before the first."""
        self.acked_keepalive_sent_s = 0.0
        """The same on the monotonic clock."""
        self.keepalive_seen_s = 0.0
        """Unix time of the peer's newest keepalive; 0 before the first."""
        self.old_messages = self.skipped_messages = 0
        self.short_links = ShortLinks()
        self.last_fault: Fault | None = None
        """Why the last link broke or the last dial failed; None once the session is open again."""
        self.successor: Session | None = None
        """The session with the same peer that starts once this closing one has ended."""
        self.backoff_s = 0.0
        self.backoff_timer: Timer | None = None
        self.standby_timer: Timer | None = None
        self.stint: Any = None
        """What messenger/shards stores while the data phase runs on another shard; else None."""
        self.user: Any = None
        """The driver's object for this session."""

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.peer_type.label} {self.peer_addrs} {self.state}>"

    def change(self, change: Change) -> None:
        """Change to the next state in the table.

        Raises:
            LocalError: the table has no such change in this state: a bug in the messenger.
        """
        state = TRANSITIONS.get((self.state, change))
        if state is None:
            raise LocalError(f"{self!r}: impossible in this state: {change}")
        self.state = state

    @property
    def has_output(self) -> bool:
        """True if something justifies a link by itself: a queued message, a keepalive, or a caller that waits."""
        return bool(self.queue) or self.keepalive_due or self.awaited > 0

    @property
    def dials(self) -> bool:
        """True if this side may dial the peer: the policy is not a server's, and the peer listens."""
        return not self.policy.server and bool(self.target_addr.port)

    def decide_lossy(self, *, by_server: bool) -> None:
        """Apply the server's decision whether a fault ends the session."""
        self.lossy = by_server or self.disposable

    @property
    def io_state(self) -> IoState:
        """State of the io half, on whatever shard: OPEN, DELAY, or DROP once the session is closed."""
        if self.state is SessionState.CLOSED:
            return IoState.DROP
        flows = self.local or (self.link is not None and self.link.open)
        return IoState.OPEN if flows else IoState.DELAY

    def acknowledge(self, seq: int) -> None:
        """Forget sent messages up to ``seq``; repeated, older and premature acks have no effect."""
        seq = min(seq, self.out_seq)
        if seq > self.acked_seq:
            self.acked_seq = seq
            self.queue.acknowledge(seq)

    def requeue_sent(self) -> None:
        """Queue unacknowledged messages again, before all newer ones (§3.6)."""
        self.out_seq -= self.queue.requeue_sent()

    @property
    def dial_is_stuck(self) -> bool:
        """True if the peer waits for our dial, one dial has failed, and the next has received nothing yet."""
        return self.race_dial_failed and (self.link is None or not self.link.rx_offset)

    def end_race(self) -> None:
        """End a connection race, because a link opened: neither side waits for a dial any more."""
        self.peer_waits = self.race_dial_failed = False

    def check_peer_in_seq(self, seq: int) -> None:
        """Refuse a peer that claims to have received more than was ever sent.

        Raises:
            PeerError: UNSENT_SEQ.
        """
        sent_seq = self.out_seq + len(self.queue.requeued)
        if seq > sent_seq:
            raise PeerError(FaultReason.UNSENT_SEQ, f"in_seq {seq}, {sent_seq} was the last one sent")

    def discard_requeued_up_to(self, seq: int) -> None:
        """Drop requeued messages that the peer has, up to ``seq``; the next one sent gets ``seq`` + 1."""
        self.out_seq = self.acked_seq = min(seq, _SEQ_LIMIT)
        self.queue.discard_requeued_up_to(self.out_seq)

    def keepalive_acked(self, stamp_s: float, wall_time_s: float, now: float) -> None:
        """Record that the peer echoed a keepalive which was sent at ``stamp_s`` by the wall clock.

        Its age is then counted on the monotonic clock; a stamp in the future counts as now.
        """
        self.keepalive_acked_s = max(self.keepalive_acked_s, stamp_s)
        self.acked_keepalive_sent_s = max(self.acked_keepalive_sent_s, now - max(0.0, wall_time_s - stamp_s))

    def forget_peer_state(self) -> None:
        """Start counting from 1 in both directions, for a new session of the peer; replayed messages included."""
        self.in_seq = 0
        self.ack_due = 0
        self.discard_requeued_up_to(0)

    def reset(self) -> int:
        """Reset the session completely; returns the number of messages dropped (§4.9)."""
        dropped = self.queue.clear()
        self.forget_peer_state()
        self.client_cookie = 0
        self.server_cookie = 0
        self.connect_seq = 0
        self.peer_global_seq = 0
        self.confirmed = False
        self.peer_auth_name = None
        return dropped

    def drop_output(self) -> None:
        """Drop everything that waits to be written."""
        self.queue.clear()
        self.ack_due = 0
        self.keepalive_due = False

    def policy_throttles(self, throttles: "Throttles") -> "tuple[Throttle, ...]":
        """The throttles of a host that the policy names."""
        policy = self.policy
        if policy.throttle_messages is None and policy.throttle_bytes is None:
            return ()
        return throttles.of(policy.throttle_messages, policy.throttle_bytes)

    def cancel_backoff(self) -> None:
        """Cancel the pending dial."""
        if self.backoff_timer is not None:
            self.backoff_timer.cancel()
            self.backoff_timer = None

    def counters(self) -> dict[str, object]:
        """The session's numbers, for the history."""
        return {
            "connect_seq": self.connect_seq,
            "global_seq": self.global_seq,
            "peer_global_seq": self.peer_global_seq,
            "client_cookie": self.client_cookie,
            "server_cookie": self.server_cookie,
            "in_seq": self.in_seq,
            "out_seq": self.out_seq,
            "acked_seq": self.acked_seq,
            "sent": len(self.queue.sent),
            "queued": len(self.queue),
        }
