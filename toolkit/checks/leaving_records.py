"""The records that leave with settled links and sessions, and those that stand for them.

See :mod:`toolkit.checks.settled_links`.
"""

from collections import defaultdict
from collections.abc import Iterator
from math import inf

from toolkit.checks.history import SCENARIO
from toolkit.checks.index import Index
from toolkit.checks.records import EARLIER, Record, largest_of
from toolkit.checks.sessions import Process, SessionLog
from toolkit.checks.settled_links import Cuts
from toolkit.checks.settled_messages import Messages, message_of

_OF_SESSIONS = frozenset({"event", "fault", "io", "mark_down", "state", "unhandled"})
_OF_LINKS = frozenset({"auth", "decision", "fault", "frame", "inject", "intercept", "link", "usage", "wait"})
_DISTURBANCES = frozenset({"clock", "cut", "inject", "intercept", "mangle", "path", "process", "step"})
"""Kinds whose last record shows when the last fault was."""
_REMEMBERED_STEPS = frozenset({"configure", "declare", "dial_one", "react", "spoil", "use_up_nonces"})
"""Steps of scenarios that invariants look for anywhere in the history."""

Change = tuple[int, Record | None]


def leaving_records(index: Index, cuts: Cuts, messages: Messages) -> dict[int, Record | None]:
    """Return, by position, the record that replaces each record that leaves; None to remove it.

    Args:
        index: the history.
        cuts: the links and sessions that leave.
        messages: the messages of the history.
    """
    leaving = _Leaving(index, cuts, messages)
    found = dict(leaving.of_links())
    for log in index.sessions.values():
        if cuts.of(log):
            found.update(leaving.of_session(log))
    found.update(leaving.marks())
    found.update(leaving.of_runner())
    return found


class _Leaving:
    """Collects the records that leave."""

    def __init__(self, index: Index, cuts: Cuts, messages: Messages) -> None:
        self._index = index
        self._cuts = cuts
        self._messages = messages
        self._has_exceptions = bool(index.by_kind.get("exception"))
        self._lost = self._find_lost()
        self._marks: dict[Process, int] = {}
        """By process, the position of the last record that leaves with its links and sessions."""
        self._ended: dict[Process, int] = {}
        """By process, the highest number of a session that leaves."""
        self._with_messages: set[Process] = set()
        """Processes with messages that stay although their sessions are cut after them."""
        self._largest: dict[str, int] = {}
        """By node, the size in bytes of the largest message for it that leaves."""
        self._last = {index.by_kind[kind][-1][0] for kind in _DISTURBANCES if index.by_kind.get(kind)}
        """Positions of records that stay because they show when the last fault was."""

    # ---- links and sessions

    def of_links(self) -> Iterator[Change]:
        """Yield the records of links that leave."""
        links = {(*link.key[:2], link.key.link) for link in self._cuts.links}
        lives: dict[str, Process] = {}
        for at, record in enumerate(self._index.history.records):
            node = record.node
            if record.kind == "process" and record["action"] == "start":
                lives[node] = Process(node, record["incarnation"])
            elif record.kind in _OF_LINKS:
                process = lives.get(node) or Process(node, 0)
                if (*process, record.fields.get("link")) in links and at not in self._last:
                    self._marks[process] = at
                    yield at, None

    def of_session(self, log: SessionLog) -> Iterator[Change]:
        """Yield the records of a session before its cut."""
        cut = self._cuts.of(log)
        is_over = self._cuts.over[log] < cut
        if is_over:
            process, number = log.key
            self._ended[process] = max(number, self._ended.get(process, 0))
        for at, record in log.entries:
            kind = record.kind
            if at >= cut:
                if at == cut and not is_over:
                    yield at, self._beginning(log, at, record)
                break
            if kind in {"send", "deliver"}:
                leaves = self._leaves(log, at, record)
                if not leaves:
                    self._with_messages.add(log.key.process)
            else:
                leaves = (
                    kind in _OF_SESSIONS
                    or (kind == "keepalive" and is_over)
                    or (kind == "unsent" and not self._has_exceptions)  # it may have caused one
                )
            if kind == "inject" and is_over:
                yield at, self._without_session(at, record)
            elif leaves:
                self._marks[log.key.process] = max(at, self._marks.get(log.key.process, 0))
                yield at, None

    def _without_session(self, at: int, inject: Record) -> Record | None:
        """Return what remains of a record about a session that leaves, if it shows when the last fault was."""
        if at not in self._last:
            return None
        return Record(inject.time_s, inject.node, inject.kind, {**inject.fields, "session": None})

    def _beginning(self, log: SessionLog, at: int, state: Record) -> Record:
        """Return the state record with which the rest of a session begins."""
        current = [one for one in self._index.conversations(log) if one.start <= at]
        top_seq = max(state["out_seq"], current[-1].sent_before(at) or 0)
        return Record(state.time_s, state.node, state.kind, {**state.fields, EARLIER: top_seq})

    def _leaves(self, log: SessionLog, at: int, record: Record) -> bool:
        """True if a ``send`` or ``deliver`` before the session's cut leaves."""
        message = message_of(log, record)
        if not (
            message in self._cuts.messages
            or at in self._lost
            or (log in self._cuts.strangers and (record.kind == "deliver" or self._is_acked(log, record)))
        ):
            return False
        size = record["size"]
        self._largest[message.receiver] = max(size, self._largest.get(message.receiver, 0))
        return True

    def _find_lost(self) -> set[int]:
        """Return the positions of messages that were given up: an event or the end of the session explains it."""
        found = set()
        for source in self._index.streams.sources:
            cut = self._cuts.of(source.log)
            is_ended = source.ended is not None and source.ended < cut
            unsent = {record["tid"] for at, record in source.log.of("unsent") if at >= cut}
            for sent in source.sent:
                is_given_up = (sent.excused or sent.overtaken_by) and sent.record["tid"] not in unsent
                if sent.inbox is None and (is_ended or is_given_up):
                    found.add(sent.index)
        return found

    def _is_acked(self, log: SessionLog, send: Record) -> bool:
        """True if a peer without records has acknowledged a message before the session's cut."""
        cut = self._cuts.of(log)
        frames = self._messages.frames[message_of(log, send)]
        states = (record for at, record in log.of("state") if at == cut)
        acked_seq = next((record["acked_seq"] for record in states), 0)
        return bool(frames) and all(
            at < cut and self._index.history[at]["fields"]["seq"] <= acked_seq for _, at in frames
        )

    # ---- marks

    def marks(self) -> Iterator[Change]:
        """Yield the records that show where records of a process are missing."""
        links: dict[Process, int] = defaultdict(int)
        for link in self._cuts.links:
            links[self._index.process_of(link)] += 1
        left = self._remaining()
        for at, record in self._index.by_kind.get("settled", ()):
            process = Process(record.node, record["incarnation"])
            if process not in left and process != self._index.process(record.node):
                yield at, None
            elif process in self._marks:
                links[process] += record["links"]
                self._ended[process] = max(record["sessions"], self._ended.get(process, 0))
                for node, size in largest_of(record):
                    self._largest[node] = max(size, self._largest.get(node, 0))
                yield at, None
        for process, at in self._marks.items():
            if process in left or process == self._index.process(process.node):
                time_s = self._index.history[at].time_s
                fields = {
                    "incarnation": process.incarnation,
                    "links": links[process],
                    "sessions": self._ended.get(process, 0),
                    "largest": dict(self._largest),
                    "shards": self._index.shards.get(process.node, 1) if process in self._index.sharded else 0,
                }
                yield at, Record(time_s, process.node, "settled", fields)

    def _remaining(self) -> dict[Process, float]:
        """Return, by process of which records stay, the position of the first one of its links and sessions."""
        found: dict[Process, float] = defaultdict(lambda: inf)
        for link in self._index.links.values():
            if link not in self._cuts.links and link.opened is not None:
                process = self._index.process_of(link)
                found[process] = min(found[process], link.opened)
        for log in self._index.sessions.values():
            cut = self._cuts.of(log)
            entries = (at for at, _ in log.entries if at >= cut)
            if self._cuts.over[log] >= cut:
                found[log.key.process] = min(found[log.key.process], next(entries, cut))
        for process in self._with_messages:
            found.setdefault(process, inf)
        return found

    # ---- the runner's records

    def of_runner(self) -> Iterator[Change]:
        """Yield old records about faults, and about processes that ended."""
        index, through = self._index, self._cuts.through
        old = [
            at for kind in ("path", "cut", "exhausted") for at, _ in index.by_kind.get(kind, ()) if at < through
        ]
        for at, record in index.by_kind.get("step", ()):
            if at < through and record.node == SCENARIO and record["verb"] not in _REMEMBERED_STEPS:
                old.append(at)
        for at, record in index.by_kind.get("mangle", ()):
            if self._are_cut({record["a"], record["b"]}, at):
                old.append(at)
        old += self._of_processes()
        yield from ((at, None) for at in old if at not in self._last)

    def _of_processes(self) -> Iterator[int]:
        """Yield the positions of records about former processes, and of times in which a node was frozen."""
        index, left = self._index, self._remaining()
        since: dict[str, float] = defaultdict(lambda: inf)
        for process, at in left.items():
            since[process.node] = min(since[process.node], at)
        frozen_at: dict[str, int] = {}
        for at, record in index.by_kind.get("process", ()):
            node, action = record.node, record["action"]
            process = Process(node, record["incarnation"])
            is_past = at < min(since[node], self._cuts.through)
            if process != index.process(node) and process not in left and at < self._cuts.through:
                yield at
            elif action == "freeze":
                frozen_at[node] = at
            elif action == "thaw" and node in frozen_at and is_past:
                yield from (frozen_at.pop(node), at)
        for at, record in index.by_kind.get("clock", ()):
            if at < min(since[record.node], self._cuts.through):
                yield at

    def _are_cut(self, nodes: set[str], at: int) -> bool:
        """True if all links between two nodes that were open at a position leave."""
        return all(
            link in self._cuts.links or (link.opened or 0) > at
            for link in self._index.links.values()
            if {link.key.node, self._index.peer_of(link)} == nodes
        )
