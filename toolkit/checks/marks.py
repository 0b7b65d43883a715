"""Marks: rare protocol states that a run reached, found in its history.

A mark is a place in the protocol that only unusual timing reaches. A campaign counts the marks over all its seeds
and lists those never reached: the code for these was not tested, however many seeds there were.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from messenger.cephx.refusal import Refusal
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.history import History
from toolkit.checks.records import MESSAGE_TAGS, Record

MARKS: Mapping[str, str] = {
    # connection races
    "race kept": "connection race: this side's link wins, and the peer receives WAIT (docs/protocol.md §4.9)",
    "race given up": "connection race: the peer's link replaces this side's",
    "reconnection race kept": "connection race of a resumed session: this side's link wins",
    "reconnection race given up": "connection race of a resumed session: the peer's link replaces this side's",
    "WAIT sent": "an acceptor answered WAIT",
    "WAIT left by the peer's dial": "the loser of a race accepted the winner's link",
    "WAIT left by timer": "the winner's link of a race never arrived",
    "takeover met another": "an incoming link arrived while another one was replacing the session",
    "stale dial dropped": "an incoming link with an old global_seq was closed (v2)",
    "RETRY": "connect_seq was too low: SESSION_RETRY, RETRY_SESSION",
    "RETRY_GLOBAL": "global_seq was too low: SESSION_RETRY_GLOBAL, RETRY_GLOBAL",
    "interrupted establishment": "a connector returned before its session was ever open",
    # sessions replaced
    "replaced CONNECTING": "an incoming link replaced a session in CONNECTING",
    "replaced READY": "an incoming link replaced a session whose link was still open",
    "replaced STANDBY": "an incoming link woke a session in STANDBY",
    "replaced WAIT": "an incoming link took over a session in WAIT",
    "replaced while established": "an incoming link replaced a session before its first answer was written",
    "lossy session stopped": "a lossy client connected again before the end of its old session was noticed",
    # lost state
    "reset full": "full reset: the server lost the session, the client drops its state and raises remote_reset",
    "reset partial": "the server lost a session that had carried nothing",
    "peer lost its session, reported": "a restarted peer was detected by a policy with resetcheck",
    "peer lost its session, silently": "a restarted peer was detected by a policy without resetcheck",
    "remote_reset with a queue": "a remote reset dropped queued messages",
    "remote_reset with nothing": "a remote reset dropped no message",
    "reset": "a session ended without the application's request",
    "refused": "the application received a refused event",
    # expired tickets
    "unknown secret_id refused": "a ticket was refused because its service key is not known any more (§5.7)",
    "expired ticket refused": "a ticket was refused because it has expired by this side's clock",
    "ticket renewed in a reconnect": "a reconnect was refused with an old ticket and succeeded with a new one",
    # after a fault
    "replay": "messages were replayed on a new link",
    "replay of a replay": "a link broke during a replay",
    "acknowledged by reconnecting": "an ACK was lost with its link, and the reconnect acknowledged instead",
    "nothing replayed": "a session was resumed without a replay",
    "duplicate received": "a message arrived a second time",
    "STANDBY left by sending": "a queued message ended STANDBY",
    "STANDBY left by the peer": "the peer's link ended STANDBY",
    "backoff at its maximum": "two pauses of the maximum length between connection attempts",
    "ready timeout": "a handshake timed out",
    "idle timeout": "an open link timed out without traffic",
    "wrong target": "another entity answers at the peer's address",
    "late notice": "bytes were written into a stream that the peer had lost",
    # resources
    "throttle full": "reading stopped because the dispatch throttle was full",
    "throttle released": "reading resumed after the throttle had room again",
    "replaced on a shard": "a session was replaced while another shard ran it",
    "moved to another shard": "a session's new link went to another shard than its last one",
    # negotiation
    "secure reconnect": "a session was resumed on a link in secure mode",
    "compression agreed": "both sides chose compression",
    "compression refused": "one side refused compression",
    "msgr 2.0": "one side supports revision 0 only",
    "keepalive answered": "a keepalive was sent and acknowledged",
    # injected faults
    "blocked": "a breakpoint blocked a link",
    "stalled": "a breakpoint blocked a link, and its stream was shut down meanwhile",
    "fault at a point": "a link broke exactly at a breakpoint",
    "socket shut by injection": "ms_inject_socket_failures shut a socket",
    "delivery delayed": "ms_inject_delay delayed a delivery",
    "write congested": "ms_inject_network_congestion delayed a write",
    "restart": "a node restarted without its state",
    "mark_down": "an application marked a session down",
    # replies of v1
    **{
        f"v1 reply {tag}": "CONNECT_REPLY (§3.4)"
        for tag in (
            "READY",
            "SEQ",
            "WAIT",
            "RETRY_SESSION",
            "RETRY_GLOBAL",
            "RESETSESSION",
            "CHALLENGE_AUTHORIZER",
        )
    },
}
"""Every mark with its meaning."""

_WHY = {
    "connection race: this side's address is the lower one": "race kept",
    "connection race: the peer's address is the lower one": "race given up",
    "reconnection race: this side's address is the lower one": "reconnection race kept",
    "reconnection race: the peer's address is the lower one": "reconnection race given up",
    "another link is taking over": "takeover met another",
    "the same client_cookie: establishment was interrupted": "interrupted establishment",
    "connect_seq 0: establishment was interrupted": "interrupted establishment",
}
_VERDICTS = {
    "CLOSE_INCOMING": "stale dial dropped",
    "RETRY": "RETRY",
    "RETRY_SESSION": "RETRY",
    "RETRY_GLOBAL": "RETRY_GLOBAL",
    "STOP_EXISTING": "lossy session stopped",
    "REUSE_RESET": "peer lost its session, reported",
    "REPLACE_RESET": "peer lost its session, reported",
    "REPLACE_FRESH": "peer lost its session, silently",
}
_TAKEOVERS = frozenset({"REUSE", "REUSE_RESET", "REPLACE", "REPLACE_FRESH", "REPLACE_RESET"})
_LOST_SILENTLY = ("REUSE", "another client_cookie: the peer lost its session")
_REPLACED = {
    SessionState.CONNECTING.value: "replaced CONNECTING",
    SessionState.READY.value: "replaced READY",
    SessionState.STANDBY.value: "replaced STANDBY",
    SessionState.WAIT.value: "replaced WAIT",
    "": "replaced while established",
}
_FAULTS = {"READY_TIMEOUT": "ready timeout", "IDLE_TIMEOUT": "idle timeout", "WRONG_TARGET": "wrong target"}
_INJECTIONS = {
    "ms_inject_socket_failures": "socket shut by injection",
    "ms_inject_delay_probability": "delivery delayed",
    "ms_inject_network_congestion": "write congested",
}
_ACTIONS = {"BLOCK": "blocked", "STALL": "stalled", "FAULT": "fault at a point"}
_REFUSED_TICKETS = {
    "sealed with secret": "unknown secret_id refused",
    Refusal.EXPIRED_TICKET.words: "expired ticket refused",
}
_PAUSE = "dialling again in "


class _Watched:
    """State of one session while its records are read."""

    __slots__ = (
        "acked",
        "pause",
        "ready",
        "refused",
        "replayed",
        "replaying",
        "seen",
        "shard",
        "state",
        "written",
    )

    def __init__(self) -> None:
        self.state = ""
        self.pause = ""
        """The last pause before dialling."""
        self.acked = 0
        self.ready = False
        """True if it has been open since it began."""
        self.refused = False
        """True if its last ticket was refused."""
        self.written = 0
        """Highest seq written."""
        self.seen = 0
        """Highest seq received."""
        self.shard = 0
        self.replaying = False
        """True if messages were replayed on the current link."""
        self.replayed = False


class _Reader:
    """Counts the marks in one history."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._sessions: dict[tuple[str, int], _Watched] = {}
        self._secure: set[str] = set()
        """Links in secure mode."""
        self._full: set[tuple[str, str]] = set()
        """Throttles at their limits."""
        self._kinds: Mapping[str, Callable[[Record, dict[str, Any]], None]] = {
            "decision": self._decision,
            "state": self._state,
            "event": self._event,
            "frame": self._frame,
            "fault": self._fault,
            "io": self._io,
            "throttle": self._throttle,
            "inject": self._inject,
            "intercept": self._intercept,
            "process": self._process,
            "mark_down": self._mark_down,
        }
        self._tags: Mapping[str, Callable[[Record, dict[str, Any]], None]] = {
            "WAIT": self._wait,
            "SESSION_RESET": self._session_reset,
            "SESSION_RECONNECT_OK": self._reconnected,
            "AUTH_DONE": self._auth_done,
            "COMPRESSION_DONE": self._compression,
            "BANNER": self._banner,
            "KEEPALIVE2_ACK": self._keepalive,
        }

    def read(self, history: History) -> None:
        """Count every mark."""
        kinds = self._kinds
        for record in history.records:
            handle = kinds.get(record.kind)
            if handle is not None:
                handle(record, record.fields)

    def _of(self, record: Record, session: int) -> _Watched:
        key = (record.node, session)
        watched = self._sessions.get(key)
        if watched is None:
            watched = self._sessions[key] = _Watched()
        return watched

    # ---- kinds of records

    def _decision(self, record: Record, fields: dict[str, Any]) -> None:
        found, verdict, why = self.found, fields["verdict"], fields["why"]
        for mark in (_VERDICTS.get(verdict), _WHY.get(why)):
            if mark is not None:
                found[mark] += 1
        if (verdict, why) == _LOST_SILENTLY:
            found["peer lost its session, silently"] += 1
        if verdict in _TAKEOVERS and fields["session"] is not None:
            watched = self._of(record, fields["session"])
            found[_REPLACED.get(watched.state, "")] += 1
            if watched.shard and watched.state == SessionState.READY:
                found["replaced on a shard"] += 1

    def _state(self, record: Record, fields: dict[str, Any]) -> None:
        found, watched = self.found, self._of(record, fields["session"])
        before, state, why = watched.state, fields["state"], fields["why"]
        if before == SessionState.STANDBY:
            if state == SessionState.CONNECTING:
                found["STANDBY left by sending"] += 1
            elif state == SessionState.READY:
                found["STANDBY left by the peer"] += 1
        elif before == SessionState.WAIT:
            if state == SessionState.READY:
                found["WAIT left by the peer's dial"] += 1
            elif why == "the peer did not dial in time":
                found["WAIT left by timer"] += 1
        self._pause(watched, why)
        if state == SessionState.READY:
            if watched.refused and watched.ready:
                found["ticket renewed in a reconnect"] += 1
            watched.refused = False
            watched.ready = True
            watched.replaying = False
        elif before == SessionState.READY and watched.replaying:
            watched.replayed = True
        watched.state, watched.acked = state, fields["acked_seq"]

    def _pause(self, watched: _Watched, why: str) -> None:
        _, paused, pause = why.rpartition(_PAUSE)
        if paused:
            if pause == watched.pause:
                self.found["backoff at its maximum"] += 1
            watched.pause = pause
        else:
            watched.pause = ""

    def _event(self, record: Record, fields: dict[str, Any]) -> None:
        event = fields["event"]
        if event == EventKind.REMOTE_RESET:
            empty = "; 0 messages dropped" in fields["detail"]
            self.found["remote_reset with nothing" if empty else "remote_reset with a queue"] += 1
            watched = self._of(record, fields["session"])
            watched.written = watched.seen = watched.acked = 0
            watched.ready = False
        elif event in {EventKind.RESET, EventKind.REFUSED}:
            self.found[event] += 1

    def _frame(self, record: Record, fields: dict[str, Any]) -> None:
        tag = fields["tag"]
        if tag in MESSAGE_TAGS:
            if fields["session"] is not None:
                self._message(self._of(record, fields["session"]), fields)
        elif tag == "CONNECT_REPLY":
            if fields["direction"] == "tx":
                self._reply(fields["fields"]["tag"])
        elif (handle := self._tags.get(tag)) is not None:
            handle(record, fields)

    def _message(self, watched: _Watched, fields: dict[str, Any]) -> None:
        seq = fields["fields"]["seq"]
        if fields["direction"] == "rx":
            if seq <= watched.seen:
                self.found["duplicate received"] += 1
            watched.seen = max(watched.seen, seq)
        elif seq > watched.written:
            watched.written = seq
        elif not watched.replaying:
            watched.replaying = True
            self.found["replay"] += 1
            if watched.replayed:
                self.found["replay of a replay"] += 1

    def _reply(self, tag: str) -> None:
        if (mark := f"v1 reply {tag}") in MARKS:
            self.found[mark] += 1
        if tag == "WAIT":
            self.found["WAIT sent"] += 1
        elif tag == "RESETSESSION":
            self.found["reset full"] += 1

    def _wait(self, _record: Record, fields: dict[str, Any]) -> None:
        self.found["WAIT sent"] += fields["direction"] == "tx"

    def _session_reset(self, _record: Record, fields: dict[str, Any]) -> None:
        if fields["direction"] == "rx":
            self.found["reset full" if fields["fields"]["full"] else "reset partial"] += 1

    def _reconnected(self, record: Record, fields: dict[str, Any]) -> None:
        if fields["direction"] == "tx":
            return
        if fields["link"] in self._secure:
            self.found["secure reconnect"] += 1
        if fields["session"] is not None:
            watched = self._of(record, fields["session"])
            acked = fields["fields"]["msg_seq"]
            if acked > watched.acked:
                self.found["acknowledged by reconnecting"] += 1
            if acked >= watched.written:
                self.found["nothing replayed"] += 1

    def _auth_done(self, _record: Record, fields: dict[str, Any]) -> None:
        if fields["direction"] == "rx" and fields["fields"]["con_mode"] == 2:
            self._secure.add(fields["link"])

    def _compression(self, _record: Record, fields: dict[str, Any]) -> None:
        if fields["direction"] == "rx":
            self.found["compression agreed" if fields["fields"]["is_compress"] else "compression refused"] += 1

    def _banner(self, _record: Record, fields: dict[str, Any]) -> None:
        if fields["direction"] == "rx" and not fields["fields"].get("supported", 1) & 1:
            self.found["msgr 2.0"] += 1

    def _keepalive(self, _record: Record, fields: dict[str, Any]) -> None:
        self.found["keepalive answered"] += fields["direction"] == "rx"

    def _fault(self, record: Record, fields: dict[str, Any]) -> None:
        mark = _FAULTS.get(fields["reason"])
        if mark is not None:
            self.found[mark] += 1
        elif fields["reason"] == "AUTH_DENIED":
            self._denied(record, fields)
        elif fields["reason"] == "SOCKET" and fields["detail"].endswith("connection reset by peer"):
            self.found["late notice"] += 1

    def _denied(self, record: Record, fields: dict[str, Any]) -> None:
        for words, mark in _REFUSED_TICKETS.items():
            if words in fields["detail"]:
                self.found[mark] += 1
                return
        if fields["session"] is not None:
            self._of(record, fields["session"]).refused = True

    def _io(self, record: Record, fields: dict[str, Any]) -> None:
        if fields["state"] == "open":
            watched = self._of(record, fields["session"])
            if watched.shard not in {0, fields["shard"]}:
                self.found["moved to another shard"] += 1
            watched.shard = fields["shard"]

    def _throttle(self, record: Record, fields: dict[str, Any]) -> None:
        throttle, limit = (record.node, fields["name"]), fields["limit"]
        if limit and fields["value"] >= limit:
            self._full.add(throttle)
            self.found["throttle full"] += 1
        elif throttle in self._full:
            self._full.discard(throttle)
            self.found["throttle released"] += 1

    def _inject(self, _record: Record, fields: dict[str, Any]) -> None:
        mark = _INJECTIONS.get(fields["option"])
        if mark is not None:
            self.found[mark] += 1

    def _intercept(self, _record: Record, fields: dict[str, Any]) -> None:
        self.found[_ACTIONS[fields["action"]]] += 1

    def _process(self, record: Record, fields: dict[str, Any]) -> None:
        if fields["action"] == "start" and fields["incarnation"] > 1:
            self.found["restart"] += 1
            self._sessions = {key: value for key, value in self._sessions.items() if key[0] != record.node}

    def _mark_down(self, _record: Record, _fields: dict[str, Any]) -> None:
        self.found["mark_down"] += 1


def marks_of(history: History) -> Counter[str]:
    """Count how often a history reached each mark."""
    reader = _Reader()
    reader.read(history)
    return reader.found
