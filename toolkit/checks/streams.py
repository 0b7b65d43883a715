"""Which send each delivery comes from, and what that says about order, repetition and gaps.

A **source** is what one session sends between two losses of its queue: remote_reset drops everything that the
peer does not have, and the next source begins. An **inbox** is what one session receives between two remote
resets of its own. In the normal case one inbox receives one source, whole and in order.

Where a policy has no resetcheck (lossless_peer), either side may start a new session without an event on the
other (CF40 of docs/crimson.md): then an inbox goes on with the next source, or a source goes on in the next
inbox, where it first repeats what the former inbox had not acknowledged.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from toolkit.checks.records import Record
from toolkit.checks.sessions import SessionLog

if TYPE_CHECKING:
    from toolkit.checks.index import Index

DEFAULT_PRIORITY = 127


class What(Enum):
    """What may be wrong with a delivery."""

    ORDER = auto()
    """It comes after one that was sent later."""
    AGAIN = auto()
    """It has been delivered before."""
    CONTENT = auto()
    """It is not what was sent."""
    STRANGE = auto()
    """It was never sent."""
    STALE = auto()
    """It belongs to a session that is over."""
    EARLY = auto()
    """It has not been sent yet."""
    SILENT = auto()
    """It begins a new session without an event."""


class Problem(NamedTuple):
    """A delivery or a message that breaks the rules; ``lossy`` says whose rules."""

    record: int
    text: str
    lossy: bool
    what: What


@dataclass(slots=True, eq=False)
class Sent:
    """One message the application handed over."""

    index: int
    record: Record
    source: "Source"
    order: int
    """Its place among the source's messages."""
    inbox: "Inbox | None" = None
    """Where it was delivered last."""
    overtaken_by: "Sent | None" = None
    overtaken_at: int = 0
    """Place of the delivery that overtook it."""
    excused: bool = False
    """It may be missing: the receiver ended the session that had it, or it could not be written."""

    @property
    def priority(self) -> int:
        """Messages of higher priority may overtake it before they are on the wire."""
        return int(self.record.fields.get("priority", DEFAULT_PRIORITY))

    def __str__(self) -> str:
        return f"tid {self.record['tid']}"


@dataclass(slots=True, eq=False)
class Source:
    """What one session sends up to the loss of its queue."""

    log: SessionLog
    ended: int | None
    """Place of the event that ended it: remote_reset, reset, mark_down, end of the process."""
    sent: list[Sent] = field(default_factory=list)
    waiting: dict[int, deque[Sent]] = field(default_factory=dict)
    """By priority, what has not been delivered to the present inbox."""

    @property
    def restarts_silently(self) -> bool:
        """True if the peer may start a new session on it without an event (lossless, no resetcheck)."""
        policy = self.log.policy
        return policy is not None and not policy.lossy and not policy.resetcheck

    def push(self, index: int, record: Record) -> Sent:
        """The next message."""
        sent = Sent(index, record, self, len(self.sent))
        self.sent.append(sent)
        queue = self.waiting.get(sent.priority)
        if queue is None:
            queue = self.waiting[sent.priority] = deque()
        queue.append(sent)
        return sent

    def rewind(self, sent: Sent) -> None:
        """A new session repeats what the former one had not acknowledged: from ``sent`` on."""
        self.waiting = {}
        for again in self.sent[sent.order :]:
            self.waiting.setdefault(again.priority, deque()).append(again)

    def take(self, sent: Sent) -> list[Sent]:
        """``sent`` is delivered; returns what it must not have overtaken (equal or higher priority)."""
        overtaken: list[Sent] = []
        for priority, queue in self.waiting.items():
            while priority >= sent.priority and queue and queue[0].order < sent.order:
                overtaken.append(queue.popleft())
        queue = self.waiting[sent.priority]
        if queue and queue[0] is sent:
            queue.popleft()
        return overtaken


@dataclass(slots=True, eq=False)
class Inbox:
    """What one session receives up to a remote_reset of its own."""

    log: SessionLog
    lossy: bool
    source: Source | None = None
    former: list[Source] = field(default_factory=list)


class Delivery(NamedTuple):
    """One delivery: its place, the session it came to, and the send it comes from, if that is known."""

    position: int
    log: SessionLog
    sent: Sent | None


class Streams:
    """All sources and deliveries of a history, and what is wrong with their order."""

    def __init__(self, index: "Index") -> None:
        self.index = index
        self.sources: list[Source] = []
        self.deliveries: list[Delivery] = []
        self.problems: list[Problem] = []
        self.strangers: set[str] = set()
        """Sessions whose peer has no history: nothing to compare with."""
        self.of: dict[What, list[Problem]] = defaultdict(list)
        """The problems by what they are."""
        self._by_tid: dict[int, list[Sent]] = defaultdict(list)
        self._losses: dict[str, list[tuple[int, SessionLog]]] = defaultdict(list)
        for log in index.sessions.values():
            self._collect(log)
        for position, log, inbox in self._inboxes():
            self._deliver(position, log, inbox)

    def _collect(self, log: SessionLog) -> None:
        """The sources of a session, and the place where its node gave up what it had received."""
        resets = log.remote_resets
        end = self.index.ended(log)
        if end is not None:
            self._losses[log.node].append((end, log))
        sources: dict[int, Source] = {}
        unsent = {record["tid"] for _, record in log.of("unsent")}
        for position, record in log.of("send"):
            epoch = bisect_right(resets, position)
            if epoch not in sources:
                sources[epoch] = Source(log, resets[epoch] if epoch < len(resets) else end)
            sent = sources[epoch].push(position, record)
            sent.excused = record.fields["tid"] in unsent
            self._by_tid[record.fields["tid"]].append(sent)
        self.sources += sources.values()

    def _inboxes(self) -> Iterator[tuple[int, SessionLog, Inbox]]:
        """Every delivery in order, with its session and inbox."""
        deliveries = []
        for log in self.index.sessions.values():
            resets = log.remote_resets
            lossy = self.index.lossy(log)
            inboxes = [Inbox(log, lossy) for _ in range(len(resets) + 1)]
            deliveries += [
                (position, log, inboxes[bisect_right(resets, position)]) for position, _ in log.of("deliver")
            ]
        return iter(sorted(deliveries, key=lambda entry: entry[0]))

    # ---- one delivery

    def _deliver(self, position: int, log: SessionLog, inbox: Inbox) -> None:
        sent = self._find(position, log, inbox)
        self.deliveries.append(Delivery(position, log, sent))
        if sent is None:
            return
        if position < sent.index and self.index.history.records[position].time_s <= sent.record.time_s:
            self._problem(What.EARLY, position, inbox, f"{sent} is delivered before it is sent")
        if sent.inbox is not None and not self._repeats(sent, inbox, position):
            self._problem(What.AGAIN, position, inbox, f"{sent} from {self._name(sent)} is delivered again")
            return
        self._follow_source(position, inbox, sent)
        if sent.overtaken_by is not None:
            text = f"{sent} comes after {sent.overtaken_by}, which was sent later"
            self._problem(What.ORDER, position, inbox, text)
            sent.overtaken_by = None
        for overtaken in sent.source.take(sent):
            if sent.source.restarts_silently and self.receiver_lost(overtaken, position):
                overtaken.excused = True
            else:
                overtaken.overtaken_by, overtaken.overtaken_at = sent, position
        sent.inbox = inbox

    def _find(self, position: int, log: SessionLog, inbox: Inbox) -> Sent | None:
        """The send that a delivery comes from: of equal ones the first that has not arrived yet."""
        fields = self.index.history.records[position].fields
        same_tid = [sent for sent in self._by_tid.get(fields["tid"], ()) if _reaches(sent.source.log, log)]
        equal = [sent for sent in same_tid if sent.record.fields["digest"] == fields["digest"]]
        if len(equal) == 1:
            return equal[0]
        if equal:
            fresh = [sent for sent in equal if sent.inbox is None] or equal[-1:]
            # Short messages of a node's former life may look like those of this one.
            linked = (sent for sent in fresh if sent.source.log.key in log.partners)
            return next((sent for sent in fresh if sent.source is inbox.source), next(linked, fresh[0]))
        if log.peer_node is None:
            self.strangers.add(self.index.name(log))
        elif same_tid:
            self._problem(What.CONTENT, position, inbox, f"{same_tid[0]} arrives with other bytes than were sent")
        else:
            text = f"tid {fields['tid']} was never sent by {log.peer_node}"
            self._problem(What.STRANGE, position, inbox, text)
        return None

    def _repeats(self, sent: Sent, inbox: Inbox, position: int) -> bool:
        """Accept a repetition in a new session that raised no event at the sender (see the top)."""
        assert sent.inbox is not None
        ended = self.index.ended(sent.inbox.log)
        if not sent.source.restarts_silently:
            return False
        if sent.inbox is inbox or ended is None or ended > position:
            return False
        if inbox.source is sent.source:
            return sent in sent.source.waiting[sent.priority]
        sent.source.rewind(sent)
        return True

    def _follow_source(self, position: int, inbox: Inbox, sent: Sent) -> None:
        """An inbox goes on with another source only where the policy lets that pass without an event."""
        source, before = sent.source, inbox.source
        if source is before:
            return
        if before is not None:
            inbox.former.append(before)
            policy = inbox.log.policy
            if source in inbox.former:
                text = f"{sent} belongs to a session that a newer one has replaced"
                self._problem(What.STALE, position, inbox, text)
            elif inbox.lossy or (policy is not None and policy.resetcheck):
                text = f"{sent} begins a new session of {self._name(sent)} without an event"
                self._problem(What.SILENT, position, inbox, text)
        inbox.source = source

    # ---- what explains a loss

    def receiver_lost(self, sent: Sent, before: int | None = None) -> bool:
        """True if the receiver gave up a session that may have had the message, after it was sent."""
        log = sent.source.log
        return log.peer_node is not None and any(
            sent.index < end and (before is None or end < before)
            for end, receiver in self._losses[log.peer_node]
            if _reaches(log, receiver)
        )

    # ---- words

    def _name(self, sent: Sent) -> str:
        return self.index.name(sent.source.log)

    def _problem(self, what: What, position: int, inbox: Inbox, text: str) -> None:
        problem = Problem(position, f"{self.index.name(inbox.log)}: {text}", inbox.lossy, what)
        self.problems.append(problem)
        self.of[what].append(problem)


def _reaches(sender: SessionLog, receiver: SessionLog) -> bool:
    """True if what one session sends can come to the other; links say so exactly, else the peers' names do."""
    if sender.partners and (receiver.partners or receiver.peer_node is None):
        return sender.key in receiver.partners  # messages of a stranger may look like those of a node
    claims = ((sender.peer_node, receiver.node), (receiver.peer_node, sender.node))
    named = [peer == node for peer, node in claims if peer is not None]
    return bool(named) and all(named)
