"""Sessions and processes of a history, each with its records."""

from typing import NamedTuple

from messenger.loopback import LOOPBACK_ID
from messenger.outputs import EventKind
from messenger.session.policy import POLICIES, Policy
from messenger.session.session import SessionState
from toolkit.checks.records import EARLIER, Record
from toolkit.checks.wires import Entry, LinkLog

__all__ = ["Entry", "Process", "SessionKey", "SessionLog", "addresses"]


_NONE: list[Entry] = []


class Process(NamedTuple):
    """One incarnation of a node's process. All sessions of the node end with it."""

    node: str
    incarnation: int


class SessionKey(NamedTuple):
    """Identifies a session in the whole history."""

    process: Process
    session: int


class SessionLog:
    """The records of one session. Its frames are kept with its links."""

    __slots__ = (
        "_by_kind",
        "_seen_peers",
        "dialled",
        "earlier",
        "entries",
        "key",
        "last_state",
        "links",
        "marked_down",
        "partners",
        "peer_node",
        "peers",
        "remote_resets",
        "reset",
    )

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.entries: list[Entry] = []
        self._by_kind: dict[str, list[Entry]] = {}
        self.links: list[LinkLog] = []
        self.peers: dict[str, None] = {}
        """Names and addresses of the peer in the records, in order of appearance."""
        self._seen_peers: set[str] = set()
        self.peer_node: str | None = None
        """Name of the peer; None if it is not a node of the history."""
        self.partners: set[SessionKey] = set()
        """The sessions at the other ends of its links."""
        self.dialled = False
        self.earlier: int | None = None
        """Position up to which its records have left the history, except messages that may be sent again; None if
        all are here. The state record there shows its numbers, unless the session has ended."""
        self.last_state: Record | None = None
        self.marked_down: int | None = None
        self.reset: int | None = None
        self.remote_resets: list[int] = []
        """Positions of its remote_reset events."""

    def add(self, entry: Entry) -> None:
        """Add a record of this session."""
        index, record = entry
        kind = record.kind
        self.entries.append(entry)
        self._by_kind.setdefault(kind, []).append(entry)
        peer = record.fields.get("peer", "")
        if peer not in self._seen_peers:
            self._seen_peers.add(peer)
            self.peers.update(dict.fromkeys(addresses(peer)))
        if kind == "state":
            self.last_state = record
            if EARLIER in record.fields:
                self.earlier = index
        elif kind == "mark_down" and self.marked_down is None:
            self.marked_down = index
        elif kind == "event":
            self._add_event(index, record["event"])

    def _add_event(self, index: int, event: str) -> None:
        if event == EventKind.RESET and self.reset is None:
            self.reset = index
        elif event == EventKind.REMOTE_RESET:
            self.remote_resets.append(index)

    @property
    def is_loopback(self) -> bool:
        """True for a node's session with itself, which has no link and no state."""
        return self.key.session == LOOPBACK_ID

    @property
    def beginning(self) -> Record | None:
        """The state record with which it begins, if earlier records have left the history; else None."""
        states = self.of("state")
        return states[0][1] if states and states[0][0] == self.earlier else None

    def of(self, kind: str) -> list[Entry]:
        """Return its records of one kind. Do not change the list."""
        return self._by_kind.get(kind, _NONE)

    @property
    def node(self) -> str:
        """The node that has the session."""
        return self.key.process.node

    @property
    def state(self) -> str:
        """The last recorded state; CONNECTING if none was recorded."""
        return SessionState.CONNECTING if self.last_state is None else self.last_state["state"]

    @property
    def policy(self) -> Policy | None:
        """The session's policy; None if it is not one of Ceph's presets."""
        return POLICIES.get(self.last_state["policy"]) if self.last_state else None

    @property
    def shows_frames(self) -> bool:
        """True if its states and all frames of its links are recorded."""
        return (
            self.last_state is not None
            and any(link.tx for link in self.links)
            and all(link.is_whole for link in self.links)
        )

    def held_at_most(self) -> int:
        """Return an upper bound of the messages that it holds at the end; ignores acknowledgements."""
        held = 0
        for _, record in self.entries:
            if record.kind == "state":
                held = 0 if record["state"] == SessionState.CLOSED else record["sent"] + record["queued"]
            elif record.kind == "send":
                held += 1
        return held


def addresses(text: str) -> list[str]:
    """Split a printed peer, a name or an address vector in brackets, into its names or addresses."""
    return [part for part in text.strip("[]").split(",") if part]
