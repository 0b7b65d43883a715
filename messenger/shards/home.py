"""The home shard's side of sharding: which link is on which shard, and how sessions move there and back.

A session's io half (queues, sequence numbers of messages) belongs to one shard at a time. During a stint it
belongs to the other shard, and only the protocol half may be used here. Code that needs the io half recalls the
session and continues once it has returned: :meth:`Shards.recall`.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from messenger.calls import (
    DeliverIo,
    FaultIo,
    FinishIo,
    KeepAliveIo,
    LeaveIo,
    OpenIo,
    ReconfigureIo,
    ReleaseIo,
    SendIo,
    StintCall,
    ToHome,
    Traffic,
    UnblockIo,
)
from messenger.errors import Fault, LocalError
from messenger.link import Link, Step
from messenger.messages.message import Message
from messenger.outputs import CallShard, MoveLink
from messenger.session.faults import session_fault
from messenger.session.policy import ThrottleLimit
from messenger.session.session import IoState, Session
from messenger.session.states import SessionState
from messenger.shards.calls import InOrder
from messenger.shards.io_shard import IoShard

if TYPE_CHECKING:
    from messenger.core import Core


class Stint:
    """The time of a link on another shard, as the home shard sees it."""

    __slots__ = ("calls", "keepalive", "late", "leaving", "link", "session", "shard", "then", "traffic")

    def __init__(self, session: Session, link: Link, shard: int) -> None:
        self.session = session
        self.link = link
        self.shard = shard
        self.traffic = Traffic()
        self.calls: InOrder[StintCall] = InOrder()
        self.leaving = False
        self.then: Step | None = None
        """The step to run once the session is back."""
        self.late: list[Message] = []
        """Messages that the application sent while the session was returning."""
        self.keepalive = False


class Shards:
    """The other shards of one messenger.

    Args:
        core: the home shard.
        count: number of other shards; with 0 the home shard runs all data phases.

    Raises:
        LocalError: ``count`` is negative.
    """

    def __init__(self, core: "Core", count: int) -> None:
        if count < 0:
            raise LocalError(f"{count} shards beside the home shard: give 0 or more")
        self.count = count
        self._core = core
        self._hosts: dict[int, IoShard] = {}
        self._stints: dict[int, Stint] = {}
        self._owed: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (count + 1))
        """Units that the application holds of each throttle, by the shard that delivered them."""
        self._released = 0
        """Units returned to throttles of other shards, including those in transit."""

    def __len__(self) -> int:
        """Number of links on other shards."""
        return len(self._stints)

    @property
    def hosts(self) -> list[IoShard]:
        """The hosts of the other shards."""
        return list(self._hosts.values())

    @property
    def travelling(self) -> int:
        """Number of calls in transit between shards, and of messages that wait for their session to return."""
        return sum(stint.traffic.travelling + len(stint.late) for stint in self._stints.values())

    @property
    def releases_travelling(self) -> int:
        """Units in transit to throttles of other shards, which still count as held there."""
        return self._released - sum(host.released for host in self._hosts.values())

    @property
    def owed_bytes(self) -> int:
        """Bytes from other shards that the application holds."""
        return sum(self._owed[self._core.dispatch_throttle.name])

    def new_shard(self, index: int) -> IoShard:
        """Create the host of shard ``index`` (from 1 on); the driver of the home shard must drive it too."""
        core = self._core
        host = self._hosts[index] = IoShard(
            index,
            core.config,
            wall_offset_s=core.wall_offset_s,
            tracing=core.tracing,
            interceptor=core.interceptor,
            shares=self.count,
            passes=core.passes,
        )
        core.update_injection()
        return host

    def reconfigured(self) -> None:
        """Pass changed options to the shards."""
        for shard in self._hosts:
            self._core.emit(CallShard(shard, ReconfigureIo()))

    def begin(self, session: Session, link: Link, now: float) -> None:
        """Move an open link and the io half of its session to a shard."""
        shard = link.id % self.count + 1
        link.move_to(self._hosts[shard])
        stint = session.stint = self._stints[link.id] = Stint(session, link, shard)
        self.set_io_state(session, IoState.OPEN, shard, now)
        self._core.emit(MoveLink(link.id, shard))
        self._call(stint, OpenIo(link.id, 1, session, link, stint.traffic))
        if session.id in self._core.closing:
            self.finish(stint)

    def written(self, link_id: int, count: int) -> None:
        """Account for bytes of the handshake that were written while the link moved."""
        if (stint := self._stints.get(link_id)) is not None:
            stint.link.unwritten_bytes -= count

    # ---- calls of the application during a stint

    def send(self, stint: Stint, message: Message) -> None:
        """Queue a message on the session's shard."""
        if stint.leaving:
            stint.late.append(message)
        else:
            self._call(stint, SendIo(stint.link.id, stint.traffic.to_shard + 1, message))

    def keepalive(self, stint: Stint) -> None:
        """Send a keepalive from the session's shard."""
        if stint.leaving:
            stint.keepalive = True
        else:
            self._call(stint, KeepAliveIo(stint.link.id, stint.traffic.to_shard + 1))

    def finish(self, stint: Stint) -> None:
        """Refuse further messages: close the session once its queue is drained and acknowledged."""
        if not stint.leaving:
            self._call(stint, FinishIo(stint.link.id, stint.traffic.to_shard + 1))

    def unblock(self, link_id: int) -> bool:
        """Continue a link that the interceptor holds; False if it is not on another shard."""
        stint = self._stints.get(link_id)
        if stint is None:
            return False
        if not stint.leaving:
            self._call(stint, UnblockIo(link_id, stint.traffic.to_shard + 1))
        return True

    def owe_home(self, messages: int, size_bytes: int) -> None:
        """Account for delivered messages of the loopback session."""
        if self.count:
            for throttle, amount in self._dispatched(messages, size_bytes):
                self._owed[throttle][0] += amount

    def release(self, messages: int, size_bytes: int, now: float) -> None:
        """Return released messages to the throttles of the shards that delivered them.

        Raises:
            LocalError: more is released than is held.
        """
        dispatched = self._dispatched(messages, size_bytes)
        self._check_owed(dispatched)
        for name, amount in dispatched:
            for shard, part in _shares(self._owed[name], amount):
                if shard:
                    self._give_back(shard, part, name)
                else:
                    self._core.throttle(name).put(part)
        self._core.trace_throttle(now)

    def release_held(self, session: Session, messages: int, size_bytes: int, now: float) -> None:
        """The same for the throttles of a session's policy."""
        held = [(limit.name, amount) for limit, amount in _held(session, messages, size_bytes)]
        self._check_owed(held)
        for name, amount in held:
            for shard, part in _shares(self._owed[name], amount):
                self._give_back(shard, part, name)
        self.trace_held(session, now)

    def _give_back(self, shard: int, amount: int, throttle: str) -> None:
        self._released += amount
        self._core.emit(CallShard(shard, ReleaseIo(amount, throttle)))

    def _dispatched(self, messages: int, size_bytes: int) -> list[tuple[str, int]]:
        """The units that messages take of the dispatch throttles."""
        core = self._core
        return [(core.dispatch_messages.name, messages), (core.dispatch_throttle.name, size_bytes)]

    def _check_owed(self, amounts: list[tuple[str, int]]) -> None:
        for name, amount in amounts:
            held = sum(self._owed[name])
            if amount > held:
                what = f"{amount} of {name} released where {held} are held"
                raise LocalError(f"{what}: was a message released twice?")

    def trace_held(self, session: Session | None, now: float) -> None:
        """Record what the application holds against the throttles of a session's policy."""
        if self._core.tracing and session is not None:
            for limit, _ in _held(session, 0, 0):
                value = sum(self._owed[limit.name])
                self._core.trace("throttle", now, name=limit.name, value=value, limit=limit.limit)

    # ---- return of sessions

    def recall(self, stint: Stint, fault: Fault, then: Step | None) -> None:
        """Close the link, and call ``then`` once the session is back; replaces an earlier ``then``."""
        stint.then = then
        if not stint.leaving:
            stint.leaving = True
            last = stint.session.state is SessionState.CLOSED
            self._call(stint, LeaveIo(stint.link.id, stint.traffic.to_shard + 1, fault, last))

    def call(self, call: ToHome, now: float) -> None:
        """Apply a call that arrived from a shard, and those that waited for it."""
        stint = self._stints[call.link_id]
        for due in stint.calls.arrive(call):
            stint.traffic.applied_at_home += 1
            if isinstance(due, DeliverIo):
                self._deliver(stint, due, now)
            elif isinstance(due, FaultIo):
                self.fault(stint, due.fault)
            else:
                self._left(stint, now)

    def _deliver(self, stint: Stint, call: DeliverIo, now: float) -> None:
        deliver, session = call.deliver, stint.session
        messages = len(deliver.messages)
        for name, amount in self._dispatched(messages, deliver.size_bytes):
            self._owed[name][stint.shard] += amount
        self._core.trace_throttle(now)
        for limit, amount in _held(session, messages, deliver.size_bytes):
            self._owed[limit.name][stint.shard] += amount
        self.trace_held(session, now)
        if session.state is SessionState.CLOSED:
            self._core.release(deliver.size_bytes, now, session, messages)
        else:
            self._core.emit(deliver)

    def fault(self, stint: Stint, fault: Fault) -> None:
        """Handle the fault of a link on another shard."""
        if stint.leaving:
            return
        core, session = self._core, stint.session
        if session.link is stint.link:
            session.link = None
        self.recall(stint, fault, lambda then: session_fault(core, session, fault, then))

    def _left(self, stint: Stint, now: float) -> None:
        session = stint.session
        del self._stints[stint.link.id]
        session.stint = None
        if session.state is SessionState.CLOSED:
            self.set_io_state(session, IoState.DROP, 0, now)
            session.drop_output()
            return
        self.set_io_state(session, IoState.DELAY, 0, now)
        for message in stint.late:
            session.queue.push(message)
        session.keepalive_due |= stint.keepalive
        if stint.then is not None:
            stint.then(now)

    # ----

    def _call(self, stint: Stint, call: OpenIo | SendIo | KeepAliveIo | UnblockIo | FinishIo | LeaveIo) -> None:
        stint.traffic.to_shard = call.seq
        self._core.emit(CallShard(stint.shard, call))

    def set_io_state(self, session: Session, state: IoState, shard: int, now: float) -> None:
        """Record the new state of an io half that is at home (shard 0); other shards record theirs."""
        if self.count and self._core.tracing and not shard:
            self._core.trace("io", now, session=session.id, link=None, shard=0, state=state.value)


def _shares(owed: list[int], amount: int) -> Iterator[tuple[int, int]]:
    """Divide ``amount`` among the shards that are owed it, the one with most first; ``owed`` must suffice."""
    while amount:
        shard = max(range(len(owed)), key=owed.__getitem__)
        part = min(amount, owed[shard])
        owed[shard] -= part
        amount -= part
        yield shard, part


def _held(session: Session, messages: int, size_bytes: int) -> list[tuple[ThrottleLimit, int]]:
    """The units that messages of a session take of its policy's throttles."""
    policy = session.policy
    amounts = (policy.throttle_messages, messages), (policy.throttle_bytes, size_bytes)
    return [(limit, amount) for limit, amount in amounts if limit is not None]
