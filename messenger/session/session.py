"""A session: what the application holds and what survives links (docs/protocol.md §3.6, §4.9).

This file has the state and its bookkeeping. ``faults.py`` handles faults; ``existing.py`` decides on incoming
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
"""A peer that claims to have seen more than this does not take our own seqs out of their 64 bits."""


@dataclass(slots=True)
class ShortLinks:
    """Links in a row that broke just after they had opened."""

    opened_s: float = 0.0
    """When the session's newest link opened."""
    count: int = 0
    pause_s: float = 0.0
    """After the last of them; 0 while they are few."""


class IoState(StrEnum):
    """What the io half of a session does, in crimson's words (§4.12)."""

    NONE = "none"
    """A shard has not begun with it yet."""
    DELAY = "delay"
    """Messages wait for a link."""
    OPEN = "open"
    """Messages flow."""
    DROP = "drop"
    """The session is over."""
    SWITCHED = "switched"
    """It has left this shard."""


class Session:
    """One end of a session with one peer."""

    __slots__ = (
        "ack_due",
        "acked_seq",
        "announced",
        "anonymous",
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
        "keepalive_heard_s",
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
        "peer_let_down",
        "peer_name",
        "peer_seq_at",
        "peer_type",
        "peer_waits",
        "policy",
        "queue",
        "queued_s",
        "reset_told",
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
        """The entity that the peer authenticated as when it dialled."""
        self.target_addr = target_addr
        """The address this side dials."""
        self.policy = policy
        self.lossy = policy.lossy
        """As the server decided; the policy's word until then."""
        self.disposable = False
        """The application wants it to be lossy, whatever the server decides."""
        self.guarded = False
        """Sending must be looked at first: it is closed, closing, or faults are injected."""
        self.anonymous = False
        """True if the session cannot be found by the peer's address."""
        self.local = False
        """With oneself: what is sent is delivered, without any link."""
        self.state = SessionState.CONNECTING  # changed by ``change`` only
        self.link: Carrier | None = None
        """The link that carries it, or that is being made for it."""
        self.client_cookie = self.server_cookie = 0
        self.connect_seq = self.global_seq = self.peer_global_seq = 0
        self.announced = False
        """True if the application has the session: it dialled it or got an accept event."""
        self.confirmed = False
        """Since it began or was last reset, both sides have known it to be open."""
        self.reset_told = False
        """The application knows that the peer lost its state, and nothing has come of the session since."""
        self.is_reset_from_peer = False
        """v1: the link that is taking over resets the session (§3.4)."""
        self.peer_seq_at = 0
        """v2: the moment of the core when it was learned."""
        self.peer_waits = False
        """True if the peer got WAIT and expects the dial of this side, ..."""
        self.peer_let_down = False
        """... which has failed since."""
        self.features = 0
        self.in_seq = self.out_seq = self.acked_seq = 0
        self.queue = OutQueue()
        self.queued_s: float | None = None
        """Since when something waits in the queue that could not leave at once."""
        self.ack_due = 0
        """Messages received since the last one acknowledged to the peer."""
        self.keepalive_due = False
        self.keepalive_acked_s = 0.0
        """Unix time of the newest of our keepalives that the peer echoed; 0 before the first."""
        self.keepalive_heard_s = 0.0
        """Monotonic time of the same."""
        self.keepalive_seen_s = 0.0
        """Unix time of the newest keepalive of the peer's; 0 before the first."""
        self.old_messages = self.skipped_messages = 0
        self.short_links = ShortLinks()
        self.last_fault: Fault | None = None
        """Why its last link broke or its last dial failed; None since it is open again."""
        self.successor: Session | None = None
        """The session with the same peer that begins when this one, which is closing, has ended."""
        self.backoff_s = 0.0
        self.backoff_timer: Timer | None = None
        self.standby_timer: Timer | None = None
        self.stint: Any = None
        """While the data phase runs on another shard, what messenger/shards knows of it; else None."""
        self.user: Any = None
        """The driver's own object for this session."""

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.peer_type.label} {self.peer_addrs} {self.state}>"

    def change(self, change: Change) -> None:
        """Go to the state that follows in the table.

        Raises:
            LocalError: the change is not possible in this state. That is a mistake of the messenger's own.
        """
        state = TRANSITIONS.get((self.state, change))
        if state is None:
            raise LocalError(f"{self!r}: impossible in this state: {change}")
        self.state = state

    @property
    def has_output(self) -> bool:
        """True if something waits to be written that alone justifies a link."""
        return bool(self.queue) or self.keepalive_due

    @property
    def dials(self) -> bool:
        """True if this side may dial the peer: it is no server, and the peer listens."""
        return not self.policy.server and bool(self.target_addr.port)

    def decide_lossy(self, *, by_server: bool) -> None:
        """The server has decided whether a fault ends the session."""
        self.lossy = by_server or self.disposable

    @property
    def io_state(self) -> IoState:
        """What the io half does, wherever it runs: OPEN, DELAY, or DROP once the session is closed."""
        if self.state is SessionState.CLOSED:
            return IoState.DROP
        flows = self.local or (self.link is not None and self.link.open)
        return IoState.OPEN if flows else IoState.DELAY

    def acknowledge(self, seq: int) -> None:
        """The peer has every message up to ``seq``; repeated, older and premature acks change nothing."""
        seq = min(seq, self.out_seq)
        if seq > self.acked_seq:
            self.acked_seq = seq
            self.queue.acknowledge(seq)

    def requeue_sent(self) -> None:
        """What the peer may have missed is to be sent again, before anything newer (§3.6)."""
        self.out_seq -= self.queue.requeue_sent()

    @property
    def dial_gets_nowhere(self) -> bool:
        """The peer waits for a dial that fails: one has failed, and the next has received nothing yet."""
        return self.peer_let_down and (self.link is None or not self.link.rx_offset)

    def end_race(self) -> None:
        """Note that a link opened: neither side waits for a dial any more."""
        self.peer_waits = self.peer_let_down = False

    def check_peer_in_seq(self, seq: int) -> None:
        """Refuse a peer that claims to have more than was ever sent.

        Raises:
            PeerError: UNSENT_SEQ.
        """
        sent_seq = self.out_seq + len(self.queue.requeued)
        if seq > sent_seq:
            raise PeerError(FaultReason.UNSENT_SEQ, f"in_seq {seq}, {sent_seq} was the last one sent")

    def discard_requeued_up_to(self, seq: int) -> None:
        """The peer has the messages up to ``seq``: drop them; the next one sent has the seq behind it."""
        self.out_seq = self.acked_seq = min(seq, _SEQ_LIMIT)
        self.queue.discard_requeued_up_to(self.out_seq)

    def keepalive_acked(self, stamp_s: float, wall_time_s: float, now: float) -> None:
        """The peer echoed a keepalive that was sent at ``stamp_s`` by the wall clock.

        How old it is counts on the monotonic clock; a stamp from the future counts as one of now.
        """
        self.keepalive_acked_s = max(self.keepalive_acked_s, stamp_s)
        self.keepalive_heard_s = max(self.keepalive_heard_s, now - max(0.0, wall_time_s - stamp_s))

    def forget_peer_state(self) -> None:
        """The peer begins a new session: both directions count from 1 again, replayed messages included."""
        self.in_seq = 0
        self.ack_due = 0
        self.discard_requeued_up_to(0)

    def reset(self) -> int:
        """Full reset: nothing of the old session stays; returns how many messages were dropped (§4.9)."""
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
        """Nothing more is to be written."""
        self.queue.clear()
        self.ack_due = 0
        self.keepalive_due = False

    def policy_throttles(self, throttles: "Throttles") -> "tuple[Throttle, ...]":
        """Those of a host's throttles that the policy names."""
        policy = self.policy
        if policy.throttle_messages is None and policy.throttle_bytes is None:
            return ()
        return throttles.of(policy.throttle_messages, policy.throttle_bytes)

    def cancel_backoff(self) -> None:
        """Do not dial when the pause is over; something better has happened."""
        if self.backoff_timer is not None:
            self.backoff_timer.cancel()
            self.backoff_timer = None

    def counters(self) -> dict[str, object]:
        """The numbers of the session, for the history."""
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
