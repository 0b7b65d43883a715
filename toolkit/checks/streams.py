"""Matches each delivery with its send, and finds breaches of order, repetitions and gaps.

A **source** is what one session sends between two losses of its queue: remote_reset drops everything that the peer
does not have, and the next source begins. An **inbox** is what one session receives between two remote resets of
its own. Normally one inbox receives one source, whole and in order.

Where a policy has no resetcheck (lossless_peer), either side may start a new session without an event on the other
(CF40 of docs/crimson.md). Then an inbox continues with the next source, or a source continues in the next inbox,
where it first repeats what the former inbox had not acknowledged.
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


class ProblemKind(Enum):
    """The problem of a delivery."""

    ORDER = auto()
    """It was delivered after a message that was sent later."""
    AGAIN = auto()
    """It was delivered before."""
    CONTENT = auto()
    """Its bytes differ from those that were sent."""
    STRANGE = auto()
    """It was never sent."""
    STALE = auto()
    """It belongs to a session that has ended."""
    EARLY = auto()
    """It was delivered before it was sent."""
    SILENT = auto()
    """It begins a new session without an event."""


class Problem(NamedTuple):
    """A delivery or a message that breaks the rules; ``lossy`` is True if the rules of lossy sessions apply."""

    record: int
    text: str
    lossy: bool
    kind: ProblemKind


@dataclass(slots=True, eq=False)
class Sent:
    """One message that the application sent."""

    index: int
    record: Record
    source: "Source"
    order: int
    """Its index among the source's messages."""
    inbox: "Inbox | None" = None
    """The inbox in which it was delivered last; None if it was not delivered."""
    overtaken_by: "Sent | None" = None
    overtaken_at: int = 0
    """Position of the delivery that overtook it."""
    excused: bool = False
    """True if it may be missing: the receiver ended the session that had it, or it could not be encoded."""

    @property
    def priority(self) -> int:
        """Its priority. Messages of higher priority may overtake it before they are on the wire."""
        return int(self.record.fields.get("priority", DEFAULT_PRIORITY))

    def __str__(self) -> str:
        return f"tid {self.record['tid']}"


@dataclass(slots=True, eq=False)
class Source:
    """The messages that one session sends until it loses its queue."""

    log: SessionLog
    ended: int | None
    """Position of the event that ended it: remote_reset, reset, mark_down or the end of the process; None if
    none did."""
    sent: list[Sent] = field(default_factory=list)
    waiting: dict[int, deque[Sent]] = field(default_factory=dict)
    """By priority, the messages not yet delivered to the current inbox."""

    @property
    def restarts_silently(self) -> bool:
        """True if the peer may start a new session on it without an event (lossless, no resetcheck)."""
        policy = self.log.policy
        return policy is not None and not policy.lossy and not policy.resetcheck

    def push(self, index: int, record: Record) -> Sent:
        """Append a message that the application sent."""
        sent = Sent(index, record, self, len(self.sent))
        self.sent.append(sent)
        queue = self.waiting.get(sent.priority)
        if queue is None:
            queue = self.waiting[sent.priority] = deque()
        queue.append(sent)
        return sent

    def rewind(self, sent: Sent) -> None:
        """Expect all messages from ``sent`` on again: a new session repeats what was not acknowledged."""
        self.waiting = {}
        for again in self.sent[sent.order :]:
            self.waiting.setdefault(again.priority, deque()).append(again)

    def take(self, sent: Sent) -> list[Sent]:
        """Remove a delivered message; returns the messages of equal or higher priority that it overtook."""
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
    """The messages that one session receives until its own remote_reset."""

    log: SessionLog
    lossy: bool
    source: Source | None = None
    former: list[Source] = field(default_factory=list)


class Delivery(NamedTuple):
    """A delivery: its position, the receiving session, and its send (None if unknown)."""

    position: int
    log: SessionLog
    sent: Sent | None


class Streams:
    """All sources and deliveries of a history, and the problems with their order."""

    def __init__(self, index: "Index") -> None:
        self.index = index
        self.sources: list[Source] = []
        self.deliveries: list[Delivery] = []
        self.problems: list[Problem] = []
        self.strangers: set[str] = set()
        """Sessions whose peer has no records in the history, so that nothing can be compared."""
        self.of: dict[ProblemKind, list[Problem]] = defaultdict(list)
        """The problems by kind."""
        self._by_tid: dict[int, list[Sent]] = defaultdict(list)
        self._losses: dict[str, list[tuple[int, SessionLog]]] = defaultdict(list)
        for log in index.sessions.values():
            self._collect(log)
        for position, log, inbox in self._inboxes():
            self._deliver(position, log, inbox)

    def _collect(self, log: SessionLog) -> None:
        """Collect a session's sources, and the positions where its node dropped received messages."""
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
        """Yield every delivery in order, with its session and inbox."""
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
            self._problem(ProblemKind.EARLY, position, inbox, f"{sent} is delivered before it is sent")
        if sent.inbox is not None and not self._repeats(sent, inbox, position):
            self._problem(ProblemKind.AGAIN, position, inbox, f"{sent} from {self._name(sent)} is delivered again")
            return
        self._follow_source(position, inbox, sent)
        if sent.overtaken_by is not None:
            text = f"{sent} comes after {sent.overtaken_by}, which was sent later"
            self._problem(ProblemKind.ORDER, position, inbox, text)
            sent.overtaken_by = None
        for overtaken in sent.source.take(sent):
            if sent.source.restarts_silently and self.receiver_lost(overtaken, position):
                overtaken.excused = True
            else:
                overtaken.overtaken_by, overtaken.overtaken_at = sent, position
        sent.inbox = inbox

    def _find(self, position: int, log: SessionLog, inbox: Inbox) -> Sent | None:
        """Return the send of a delivery: among equal ones the first that has not arrived yet."""
        fields = self.index.history.records[position].fields
        same_tid = [sent for sent in self._by_tid.get(fields["tid"], ()) if _reaches(sent.source.log, log)]
        equal = [sent for sent in same_tid if sent.record.fields["digest"] == fields["digest"]]
        if len(equal) == 1:
            return equal[0]
        if equal:
            fresh = [sent for sent in equal if sent.inbox is None] or equal[-1:]
            # Short messages of a node's former incarnation may equal those of this one.
            linked = (sent for sent in fresh if sent.source.log.key in log.partners)
            return next((sent for sent in fresh if sent.source is inbox.source), next(linked, fresh[0]))
        if log.peer_node is None:
            self.strangers.add(self.index.name(log))
        elif same_tid:
            self._problem(
                ProblemKind.CONTENT, position, inbox, f"{same_tid[0]} arrives with other bytes than were sent"
            )
        else:
            text = f"tid {fields['tid']} was never sent by {log.peer_node}"
            self._problem(ProblemKind.STRANGE, position, inbox, text)
        return None

    def _repeats(self, sent: Sent, inbox: Inbox, position: int) -> bool:
        """True if a new session without an event at the sender may repeat the message (see the module)."""
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
        """Move the inbox to another source, which only some policies allow without an event."""
        source, before = sent.source, inbox.source
        if source is before:
            return
        if before is not None:
            inbox.former.append(before)
            policy = inbox.log.policy
            if source in inbox.former:
                text = f"{sent} belongs to a session that a newer one has replaced"
                self._problem(ProblemKind.STALE, position, inbox, text)
            elif inbox.lossy or (policy is not None and policy.resetcheck):
                text = f"{sent} begins a new session of {self._name(sent)} without an event"
                self._problem(ProblemKind.SILENT, position, inbox, text)
        inbox.source = source

    # ---- explanations of losses

    def receiver_lost(self, sent: Sent, before: int | None = None) -> bool:
        """True if the receiver ended a session that may have had the message, after the message was sent."""
        return any(before is None or end < before for end, _ in self._losses_after(sent))

    def losers(self, sent: Sent) -> list[SessionLog]:
        """Return the receiver's sessions that ended after the message was sent and may have had it."""
        return [receiver for _, receiver in self._losses_after(sent)]

    def _losses_after(self, sent: Sent) -> Iterator[tuple[int, SessionLog]]:
        log = sent.source.log
        for end, receiver in self._losses[log.peer_node] if log.peer_node is not None else ():
            if sent.index < end and _reaches(log, receiver):
                yield end, receiver

    # ---- problems

    def _name(self, sent: Sent) -> str:
        return self.index.name(sent.source.log)

    def _problem(self, kind: ProblemKind, position: int, inbox: Inbox, text: str) -> None:
        problem = Problem(position, f"{self.index.name(inbox.log)}: {text}", inbox.lossy, kind)
        self.problems.append(problem)
        self.of[kind].append(problem)


def _reaches(sender: SessionLog, receiver: SessionLog) -> bool:
    """True if messages of ``sender`` can reach ``receiver``, by their links or else by their peers' names."""
    if sender.partners and (receiver.partners or receiver.peer_node is None):
        return sender.key in receiver.partners  # messages of an unrecorded peer may equal those of a node
    claims = ((sender.peer_node, receiver.node), (receiver.peer_node, sender.node))
    named = [peer == node for peer, node in claims if peer is not None]
    return bool(named) and all(named)
