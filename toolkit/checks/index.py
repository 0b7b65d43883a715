"""A history by sessions: their peers, policies and ends.

Within a node the order of records is exact. Between nodes it is the order of the history: exact in a simulation,
and as accurate as the clocks in a live run.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from operator import itemgetter
from typing import Any

from messenger.session.session import SessionState
from messenger.v2.wire import FLAG_LOSSY
from toolkit.checks.conversations import Conversation, conversations
from toolkit.checks.history import NETWORK, SCENARIO, History
from toolkit.checks.model.session import Models
from toolkit.checks.openings import Opening, find_openings
from toolkit.checks.records import FOLDED, Record
from toolkit.checks.sessions import Entry, Process, SessionKey, SessionLog, addresses
from toolkit.checks.streams import Streams
from toolkit.checks.wires import LinkKey, LinkLog, pair_links

_NO_NODES = frozenset({NETWORK, SCENARIO})
_DATA_TAGS = frozenset({"MESSAGE", "MSG", "ACK", FOLDED})
_ABOUT_LINKS = frozenset({"auth", "decision", "fault", "usage"})
_ABOUT_PROCESSES = frozenset({"process", "end", "io", "settled"})
_OF_LINKS = frozenset({"auth", "decision", "exception"})
"""Kinds of records whose ``session`` field names a session that may not have written them."""
_LONG_AGO = -1
_V1_FINAL = ("READY", "SEQ")  # a tuple, because a tag from a history file may be unhashable
"""The replies of v1 that open a session."""


class _Life:
    """Links and sessions of one incarnation of a process, so far."""

    __slots__ = ("links", "process", "sessions")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.links: dict[str, LinkLog] = {}
        self.sessions: dict[int, SessionLog] = {}


class Index:
    """Everything that the invariants need from a history, collected in one pass and shared by all of them."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.by_kind: dict[str, list[Entry]] = defaultdict(list)
        """Every record, by kind."""
        self.by_tag: dict[str, list[tuple[int, LinkLog, Record]]] = defaultdict(list)
        """Frames by tag, with their links, except messages and acks, which only their links have."""
        self.sessions: dict[SessionKey, SessionLog] = {}
        self.links: dict[LinkKey, LinkLog] = {}
        self.transitions: list[tuple[int, SessionLog, Record]] = []
        """Every state record of every session, in order."""
        self.process_ends: dict[Process, int] = {}
        self.frozen: dict[str, list[int]] = defaultdict(list)
        """By node, positions where it was frozen or thawed."""
        self.ends: dict[str, Entry] = {}
        """The last ``end`` record of each node."""
        self.settled: dict[Process, int] = {}
        """By process, the position up to which records of its links may have left the history."""
        self._left: dict[Process, int] = {}
        """By process, the highest number of an ended session whose records have left the history."""
        self.sharded: set[Process] = set()
        """Processes that carry connections on other shards."""
        self.shards: dict[str, int] = {}
        """By node, its number of shards other than the home shard, as far as known."""
        self._lives: dict[str, _Life] = {}
        """The last incarnation of each node."""
        self._started: set[Process] = set()
        self._restarted: dict[str, int] = defaultdict(int)
        self._nodes_by_address: dict[str, str] = {}
        self._conversations: dict[SessionLog, list[Conversation]] = {}
        self._lossy: dict[SessionLog, bool] = {}
        self._last_records: dict[Process, int] = {}
        self.judged: dict[object, object] = {}
        """Results of the rules that have run, by rule."""
        self._gather()
        pair_links(self.links.values(), lambda peer: self.resolve(addresses(peer)))
        self._connect_sessions()

    # ---- building

    def _gather(self) -> None:
        """Read all records in one pass, the most frequent kinds first."""
        kinds, tags, lives = self.by_kind, self.by_tag, self._lives
        for entry in enumerate(self.history.records):
            position, record = entry
            kind, fields = record.kind, record.fields
            kinds[kind].append(entry)
            life = lives.get(record.node)
            if life is None:
                if record.node in _NO_NODES:
                    continue
                life = lives[record.node] = _Life(Process(record.node, 0))
            if kind == "frame":
                name = fields["link"]
                link = life.links.get(name) or self._new_link(life, name)
                if fields["session"] is not None:
                    link.session = fields["session"]
                (link.tx if fields["direction"] == "tx" else link.rx).append(entry)
                tag = fields["tag"]
                if tag in _DATA_TAGS:
                    link.data.append(entry)
                else:
                    link.talk.append(entry)
                    tags[tag].append((position, link, record))
                continue
            session = fields.get("session")
            if session is not None and kind not in _OF_LINKS:
                log = life.sessions.get(session) or self._log(life, session)
                log.add(entry)
                if kind == "state":
                    self.transitions.append((position, log, record))
            if kind == "link":
                name = fields["link"]
                (life.links.get(name) or self._new_link(life, name)).add_action(position, record)
            elif kind in _ABOUT_LINKS:
                known = life.links.get(fields["link"])
                if known is not None:
                    known.add(entry)
            elif kind in _ABOUT_PROCESSES:
                self._add_process(entry, life)

    def _add_process(self, entry: Entry, life: _Life) -> None:
        position, record = entry
        if record.kind == "end":
            self.ends[record.node] = entry
        elif record.kind == "settled":
            process = Process(record.node, record["incarnation"])
            self.settled[process] = position
            self._left[process] = record["sessions"]
            if record["shards"]:
                self.sharded.add(process)
                self.shards[record.node] = max(self.shards.get(record.node, 1), record["shards"])
        elif record.kind == "io":
            self.sharded.add(life.process)
            self.shards[record.node] = max(self.shards.get(record.node, 1), record["shard"])
        else:
            self._add_action(position, record, life)

    def _add_action(self, index: int, record: Record, life: _Life) -> None:
        before = life.process
        for address in addresses(record.fields.get("addrs", "")):
            self._nodes_by_address[address] = record.node
        if record["action"] in {"freeze", "thaw"}:
            self.frozen[record.node].append(index)
            return
        if record["action"] != "start":
            self.process_ends.setdefault(before, index)
            return
        process = Process(record.node, record["incarnation"])
        if before in self._started and process != before:
            self.process_ends.setdefault(before, index)
        if process not in self._started:
            self._started.add(process)
            self._restarted[record.node] += 1
        if process != before:
            self._lives[record.node] = self._life(process)

    def _life(self, process: Process) -> _Life:
        """Begin an incarnation, or continue one after records of another."""
        life = _Life(process)
        life.links = {key.link: log for key, log in self.links.items() if key[:2] == process}
        life.sessions = {key.session: log for key, log in self.sessions.items() if key.process == process}
        return life

    def _new_link(self, life: _Life, name: str) -> LinkLog:
        key = LinkKey(*life.process, name)
        log = life.links[name] = self.links[key] = LinkLog(key)
        return log

    def _log(self, life: _Life, session: int) -> SessionLog:
        key = SessionKey(life.process, session)
        log = life.sessions[session] = self.sessions[key] = SessionLog(key)
        return log

    def _connect_sessions(self) -> None:
        for link in self.links.values():
            if link.dialled and link.far is not None:
                self._nodes_by_address.setdefault(link.peer, link.far.key.node)
            if link.session is None:
                continue
            key = _carried(link, link.session)
            log = self.sessions.get(key)
            if log is None:
                log = self.sessions[key] = SessionLog(key)
            log.links.append(link)
            log.dialled |= link.dialled
            if link.far is not None:
                log.peer_node = link.far.key.node
                if link.far.session is not None:
                    log.partners.add(_carried(link.far, link.far.session))
        for log in self.sessions.values():
            log.peer_node = log.peer_node or self.resolve(log.peers)
            has_left = log.last_state is None and log.key.session <= self._left.get(log.key.process, 0)
            if has_left and log.entries and not log.is_loopback:
                log.earlier = log.entries[-1][0]
                if log.key.process not in self.process_ends:
                    log.marked_down = _LONG_AGO  # only the application still uses it

    def resolve(self, peers: Iterable[str]) -> str | None:
        """Return the first node that has one of these names or addresses; None if there is none."""
        for peer in peers:
            if peer in self._lives:
                return peer
            if peer in self._nodes_by_address:
                return self._nodes_by_address[peer]
        return None

    # ---- queries

    def has_any(self, kinds: Iterable[str]) -> bool:
        """True if the history has records of any of these kinds."""
        return any(map(self.by_kind.get, kinds))

    @property
    def nodes(self) -> list[str]:
        """The nodes that wrote records."""
        return list(self._lives)

    @cached_property
    def streams(self) -> Streams:
        """Every delivery with its send."""
        return Streams(self)

    @cached_property
    def openings(self) -> dict[SessionLog, list[Opening]]:
        """By session, the frames by which links opened it, in order."""
        return find_openings(self)

    @cached_property
    def models(self) -> Models:
        """The models of all sessions."""
        return Models(self)

    def peer_of(self, link: LinkLog) -> str | None:
        """Return the node at the other end of a link; None if it is unknown."""
        if link.far is not None:
            return link.far.key.node
        log = self.session_of(link)
        return (log.peer_node if log else None) or self.resolve(addresses(link.peer))

    def name(self, log: SessionLog) -> str:
        """Name a session in texts, such as ``a (incarnation 2) session 3``."""
        node, incarnation = log.key.process
        which = f" (incarnation {incarnation})" if self._restarted[node] > 1 else ""
        return f"{node}{which} session {log.key.session}"

    def conversations(self, log: SessionLog) -> list[Conversation]:
        """Return a session's conversations, in order."""
        found = self._conversations.get(log)
        if found is None:
            found = self._conversations[log] = conversations(log)
        return found

    @staticmethod
    def process_of(link: LinkLog) -> Process:
        """Return the process that a link belongs to."""
        return Process(link.key.node, link.key.incarnation)

    def session_of(self, link: LinkLog) -> SessionLog | None:
        """Return the session that a link carried last."""
        return None if link.session is None else self.sessions.get(_carried(link, link.session))

    def link_of(self, record: Record) -> LinkLog | None:
        """Return the link that a record names, in the node's last incarnation that has such a link."""
        return self._links_by_name.get((record.node, record["link"]))

    @cached_property
    def _links_by_name(self) -> dict[tuple[str, str], LinkLog]:
        return {(key.node, key.link): link for key, link in self.links.items()}

    def option(self, node: str, name: str, default: float, at: int | None = None) -> float:
        """Return a numeric option of a node at a position; None means at the end of the history."""
        value = self.setting(node, name, default, at)
        return float(value) if type(value) in {int, float} else default

    def setting(self, node: str, name: str, default: Any, at: int | None = None) -> Any:  # noqa: ANN401 - as JSON
        """Return an option of a node: its value at the start or its last change; see :meth:`option`."""
        for position, options in reversed(self._options.get(node, ())):
            if (at is None or position <= at) and name in options:
                return options[name]
            if "" in options and (at is None or position <= at):
                break
        return default

    @cached_property
    def _options(self) -> dict[str, list[tuple[int, dict[str, Any]]]]:
        """By node, the options it was given and their positions; the name "" marks those of a starting process."""
        found: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for position, record in self.by_kind.get("process", ()):
            if record.fields.get("options") is not None:
                found[record.node].append((position, {"": "start", **record["options"]}))
        for position, record in self.by_kind.get("step", ()):
            if record["verb"] == "configure":
                node, *words = record["args"].split(", ")
                found[node].append((position, dict(map(_logged_option, words))))
                found[node].sort(key=itemgetter(0))
        return found

    def frozen_s(self, node: str, since_s: float, until_s: float) -> float:
        """Return for how many seconds a node was frozen between two times."""
        total_s, frozen_at_s = 0.0, None
        for position in self.frozen.get(node, ()):
            record = self.history[position]
            if record["action"] == "freeze":
                frozen_at_s = record.time_s
            elif frozen_at_s is not None:
                total_s += max(0.0, min(record.time_s, until_s) - max(frozen_at_s, since_s))
                frozen_at_s = None
        return total_s if frozen_at_s is None else total_s + max(0.0, until_s - max(frozen_at_s, since_s))

    @cached_property
    def records_messages(self) -> set[str]:
        """The nodes whose applications record their sends and deliveries."""
        return {record.node for kind in ("send", "deliver") for _, record in self.by_kind.get(kind, ())}

    @cached_property
    def _held(self) -> set[tuple[str, str]]:
        return {
            (record["link"], str(record["point"]).partition(" ")[0])
            for _, record in self.by_kind.get("intercept", ())
        }

    def is_held(self, link: LinkLog, tag: str) -> bool:
        """True if an interceptor blocked or broke the link at such a frame, so that its effect is unknown."""
        return bool(self._held) and (link.key.link, tag) in self._held

    def held_since_s(self, link: LinkLog) -> list[float]:
        """Return the times in seconds at which an interceptor began to block the link, or broke it."""
        return [
            record.time_s for _, record in self.by_kind.get("intercept", ()) if record["link"] == link.key.link
        ]

    def is_cut_off(self, process: Process, position: int) -> bool:
        """True if the process died before it could record anything after ``position``."""
        if process not in self.process_ends:
            return False
        if process in self.sharded:
            return True  # its threads record independently of each other
        last = self._last_records.get(process)
        if last is None:
            places = [
                log.entries[-1][0] for log in self.sessions.values() if log.key.process == process and log.entries
            ]
            for link in self.links.values():
                if self.process_of(link) == process:
                    places += [entries[-1][0] for entries in (link.actions, link.tx, link.rx) if entries]
            last = self._last_records[process] = max(places, default=-1)
        return last <= position

    @cached_property
    def _mangled(self) -> set[frozenset[str]]:
        return {frozenset((record["a"], record["b"])) for _, record in self.by_kind.get("mangle", ())}

    def is_mangled(self, link: LinkLog) -> bool:
        """True if a proxy changed frames on the link."""
        return bool(self._mangled) and frozenset((link.key.node, self.peer_of(link) or "")) in self._mangled

    @cached_property
    def end_s(self) -> float:
        """Time of the last record, in seconds."""
        return max((record.time_s for record in self.history.records[-1:]), default=0.0)

    def process(self, node: str) -> Process:
        """Return the last incarnation of a node's process."""
        return self._lives[node].process

    def alive(self, node: str) -> bool:
        """True if the node's process runs at the end."""
        return self._lives[node].process not in self.process_ends

    @property
    def at_rest(self) -> bool:
        """True if every living node is quiescent, so that a message that has not arrived never will."""
        return bool(self.ends) and all(node in self.ends for node in self._lives if self.alive(node))

    def ended(self, log: SessionLog) -> int | None:
        """Return the position where a reset, mark_down or the end of its process ended a session; else None."""
        ends = (log.reset, log.marked_down, self.process_ends.get(log.key.process))
        return min((index for index in ends if index is not None), default=None)

    def is_open(self, log: SessionLog) -> bool:
        """True if the session still exists at the end."""
        return self.ended(log) is None and log.state != SessionState.CLOSED

    def waits_for_dial(self, log: SessionLog) -> bool:
        """True if only the peer may dial, and it has no session left that would."""
        return log.policy is not None and log.policy.server and not self.open_partners(log)

    def open_partners(self, log: SessionLog) -> list[SessionLog]:
        """Return the peer node's sessions with this node that exist at the end."""
        return [
            other
            for other in self.sessions.values()
            if other.node == log.peer_node and other.peer_node == log.node and self.is_open(other)
        ]

    def lossy(self, log: SessionLog) -> bool:
        """True if a session is lossy: the acceptor's last reply decides (docs/protocol.md §3.8)."""
        found = self._lossy.get(log)
        if found is None:
            found = self._lossy[log] = self._lossy_by_server.get(log, self._lossy_by_policies(log))
        return found

    @cached_property
    def _lossy_by_server(self) -> dict[SessionLog, bool]:
        """By session, the lossy flag of the last reply that opened it."""
        replies = [
            *self.by_tag.get("SERVER_IDENT", ()),
            *(
                entry
                for entry in self.by_tag.get("CONNECT_REPLY", ())
                if entry[2].fields["fields"].get("tag") in _V1_FINAL
            ),
        ]
        lossy: dict[SessionLog, bool] = {}
        for _, link, record in sorted(replies, key=lambda reply: reply[0]):
            log = self.session_of(link)
            if log is not None:
                flags = record.fields["fields"].get("flags", 0)
                lossy[log] = bool(flags & FLAG_LOSSY) if isinstance(flags, int) else False
        return lossy

    def _lossy_by_policies(self, log: SessionLog) -> bool:
        policies = [log.policy, *(self.sessions[key].policy for key in log.partners)]
        servers = [policy for policy in policies if policy is not None and policy.server]
        return any(policy.lossy for policy in (servers or policies) if policy is not None)


def _logged_option(word: str) -> tuple[str, Any]:
    """Parse an option and its value from a ``configure`` step."""
    name, _, value = word.partition("=")
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _carried(link: LinkLog, session: int) -> SessionKey:
    return SessionKey(Process(link.key.node, link.key.incarnation), session)
