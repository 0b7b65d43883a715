"""A history by sessions: who talked to whom, under which policy, and when it ended.

Within a node the order of records is exact. Between nodes it is the order of the history: exact in a
simulation, as good as the clocks in a live run.
"""

from collections.abc import Iterable
from functools import cached_property

from messenger.session.session import SessionState
from messenger.v2.wire import FLAG_LOSSY
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.checks.records import Record
from toolkit.checks.sessions import Entry, Process, SessionKey, SessionLog, addresses
from toolkit.checks.streams import Streams
from toolkit.checks.wires import LinkKey, LinkLog, pair_links

_V1_FINAL = frozenset({"READY", "SEQ"})
"""The replies of v1 that open a session."""


class Index:
    """Everything the invariants ask of a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sessions: dict[SessionKey, SessionLog] = {}
        self.links: dict[LinkKey, LinkLog] = {}
        self.process_ends: dict[Process, int] = {}
        self.ends: dict[str, Entry] = {}
        """The last ``end`` record of each node."""
        self.sharded: set[Process] = set()
        """Processes whose connections run on other shards."""
        self._processes: dict[str, Process] = {}
        self._started: set[Process] = set()
        self._nodes_by_address: dict[str, str] = {}
        for index, record in enumerate(history):
            if record.node not in {NETWORK, SCENARIO}:
                self._add(index, record)
        pair_links(self.links.values())
        self._connect_sessions()

    # ---- building

    def _add(self, index: int, record: Record) -> None:
        process = self._processes.setdefault(record.node, Process(record.node, 0))
        kind = record.kind
        if kind == "process":
            self._add_process(index, record, process)
        elif kind == "end":
            self.ends[record.node] = (index, record)
        elif kind == "io":
            self.sharded.add(process)
        if kind in {"link", "frame"}:
            key = LinkKey(*process, record["link"])
            self.links.setdefault(key, LinkLog(key)).add(index, record)
        if kind not in {"frame", "decision"} and record.fields.get("session") is not None:
            self._log(SessionKey(process, record["session"])).add(index, record)

    def _add_process(self, index: int, record: Record, before: Process) -> None:
        for address in addresses(record.fields.get("addrs", "")):
            self._nodes_by_address[address] = record.node
        if record["action"] != "start":
            self.process_ends.setdefault(before, index)
            return
        process = Process(record.node, record["incarnation"])
        if before in self._started and process != before:
            self.process_ends.setdefault(before, index)
        self._started.add(process)
        self._processes[record.node] = process

    def _log(self, key: SessionKey) -> SessionLog:
        log = self.sessions.get(key)
        if log is None:
            log = self.sessions[key] = SessionLog(key)
        return log

    def _connect_sessions(self) -> None:
        for link in self.links.values():
            if link.dialled and link.far is not None:
                self._nodes_by_address.setdefault(link.peer, link.far.key.node)
            if link.session is None:
                continue
            log = self._log(_carried(link, link.session))
            log.links.append(link)
            log.dialled |= link.dialled
            if link.far is not None:
                log.peer_node = link.far.key.node
                if link.far.session is not None:
                    log.partners.add(_carried(link.far, link.far.session))
        for log in self.sessions.values():
            log.peer_node = log.peer_node or self._resolve(log.peers)

    def _resolve(self, peers: Iterable[str]) -> str | None:
        for peer in peers:
            if peer in self._processes:
                return peer
            if peer in self._nodes_by_address:
                return self._nodes_by_address[peer]
        return None

    # ---- asking

    @property
    def nodes(self) -> list[str]:
        """The nodes with records of their own."""
        return list(self._processes)

    @cached_property
    def streams(self) -> Streams:
        """Every delivery with the send it comes from."""
        return Streams(self)

    def peer_of(self, link: LinkLog) -> str | None:
        """The node at the other end of a link, if it is known."""
        if link.far is not None:
            return link.far.key.node
        log = None if link.session is None else self.sessions.get(_carried(link, link.session))
        return (log.peer_node if log else None) or self._resolve(addresses(link.peer))

    def name(self, log: SessionLog) -> str:
        """The session in words."""
        node, incarnation = log.key.process
        lives = sum(process.node == node for process in self._started)
        return f"{node}{f' (incarnation {incarnation})' if lives > 1 else ''} session {log.key.session}"

    def process(self, node: str) -> Process:
        """The last life of a node's process."""
        return self._processes[node]

    def alive(self, node: str) -> bool:
        """Whether the node's process ran at the end."""
        return self._processes[node] not in self.process_ends

    @property
    def at_rest(self) -> bool:
        """Whether every living node has come to rest, so that what has not arrived never will."""
        return bool(self.ends) and all(node in self.ends for node in self._processes if self.alive(node))

    def transitions(self) -> list[tuple[int, SessionLog, Record]]:
        """Every state of every session, in order."""
        states = [
            (position, log, record) for log in self.sessions.values() for position, record in log.of("state")
        ]
        return sorted(states, key=lambda entry: entry[0])

    def ended(self, log: SessionLog) -> int | None:
        """Where a session ended: by a reset, its own application, or the end of its process."""
        ends = (log.reset, log.marked_down, self.process_ends.get(log.key.process))
        return min((index for index in ends if index is not None), default=None)

    def is_open(self, log: SessionLog) -> bool:
        """Whether a session was still there at the end."""
        return self.ended(log) is None and log.state != SessionState.CLOSED

    def waits_for_dial(self, log: SessionLog) -> bool:
        """Whether only the peer may dial, and it has no session of its own that would."""
        return log.policy is not None and log.policy.server and not self.open_partners(log)

    def open_partners(self, log: SessionLog) -> list[SessionLog]:
        """The peer node's sessions with this node that were there at the end."""
        return [
            other
            for other in self.sessions.values()
            if other.node == log.peer_node and other.peer_node == log.node and self.is_open(other)
        ]

    def lossy(self, log: SessionLog) -> bool:
        """Whether a session is lossy: the server decides and says so in its last reply (protocol.md §3.8)."""
        idents = [
            (index, record["fields"].get("flags", 0))
            for link in log.links
            for index, record in (*link.tx, *link.rx)
            if record["tag"] == "SERVER_IDENT"
            or (record["tag"] == "CONNECT_REPLY" and record["fields"].get("tag") in _V1_FINAL)
        ]
        if idents:
            return bool(max(idents)[1] & FLAG_LOSSY)
        policies = [log.policy, *(self.sessions[key].policy for key in log.partners)]
        servers = [policy for policy in policies if policy is not None and policy.server]
        return any(policy.lossy for policy in (servers or policies) if policy is not None)


def _carried(link: LinkLog, session: int) -> SessionKey:
    return SessionKey(Process(link.key.node, link.key.incarnation), session)
