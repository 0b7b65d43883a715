"""INV-3 and INV-4: session events and their order."""

from messenger.errors import FaultReason
from messenger.loopback import LOOPBACK_ID
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.resets import one_remote_reset
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.streams import ProblemKind

_OPENING = (EventKind.ACCEPT, EventKind.CONNECT)
_OWN_ENDS = (FaultReason.MARKED_DOWN.value, FaultReason.SHUTDOWN.value)
"""Reasons for which this side closes a session itself, without an event."""


def no_stale_session(index: Index, findings: Findings) -> None:
    """INV-3: no message of a session is delivered after its reset, remote_reset or mark_down.

    Nor is it delivered in the session that follows. A reset by the peer raises exactly one remote_reset event, and
    nothing else raises one.
    """
    _judge_deliveries(index, findings)
    for problem in index.streams.of[ProblemKind.STALE]:
        findings.add(problem.record, problem.text)
    one_remote_reset(index, findings)


def _judge_deliveries(index: Index, findings: Findings) -> None:
    for position, log, sent in index.streams.deliveries:
        why = ""
        if log.marked_down is not None and log.marked_down < position:
            why = "after mark_down returned"
        elif log.reset is not None and log.reset < position:
            why = "after the session's reset"
        elif sent is not None and log.remote_resets and sent.source.ended is not None:
            resets = [at for at in log.remote_resets if at < position]
            if resets and sent.source.ended < resets[-1]:
                sender = index.name(sent.source.log)
                why = f"after remote_reset, but {sender} sent it before, in the session that was reset"
        if why:
            text = f"{index.name(log)}: tid {index.history[position]['tid']} is delivered {why}"
            findings.add(position, text)


def event_grammar(index: Index, findings: Findings) -> None:
    """INV-4: (accept | connect) (message | accept | connect | remote_reset)* [reset], and nothing after that.

    A reset event and a mark_down close the session.

    A dial that can never succeed raises a reset event without a connect event (docs/protocol.md §4.2).
    """
    if not index.by_kind.get("event") and not index.by_kind.get("state"):
        return  # send and deliver records alone do not show when sessions were open
    for log in index.sessions.values():
        if log.key.session != LOOPBACK_ID:  # the loopback session is always open and raises no events
            _Grammar(index, findings, log).judge()


class _Grammar:
    """Compares one session's events and messages with the grammar."""

    def __init__(self, index: Index, findings: Findings, log: SessionLog) -> None:
        self.findings = findings
        self.log = log
        self.lossy = index.lossy(log)
        self.name = index.name(log)
        self.cut_off = log.key.process in index.process_ends
        is_known = log.earlier is None
        self.announced = not (is_known or self.lossy)
        self.open = not is_known
        """True if the session was announced and the peer has not reset it since, as far as is known."""
        self.filled = False
        """True if the application sent messages since the last reset, perhaps before the session was announced."""
        self.ended_by = ""

    def judge(self) -> None:
        """Judge the whole session."""
        for position, record in self.log.entries:
            if record.kind == "event":
                self._event(position, record["event"])
            elif record.kind == "deliver" and not self.open and not self.ended_by:
                when = (
                    "between remote_reset and accept or connect" if self.announced else "before accept or connect"
                )
                self._add(position, f"tid {record['tid']} is delivered {when}")
            elif record.kind == "send":
                self.filled = True
            elif record.kind == "mark_down":
                self.ended_by = self.ended_by or "mark_down"
            elif record.kind == "state":
                if record["state"] == SessionState.CLOSED:
                    self._closed(position, record)
                elif self.ended_by:
                    self._add(position, f"{record['state']} after {self.ended_by}")
        last = self.log.last_state
        if self.ended_by and last is not None and last["state"] != SessionState.CLOSED and not self.cut_off:
            self._add(self.log.entries[-1][0], f"{self.ended_by}, but the session is not closed")

    def _event(self, position: int, event: str) -> None:
        if self.ended_by:
            self._add(position, f"{event} after {self.ended_by}")
        elif event in _OPENING:
            self.announced = self.open = True
        elif event == EventKind.REMOTE_RESET:
            if not self.open and not self.filled:
                when = "twice without accept or connect between" if self.announced else "before accept or connect"
                self._add(position, f"remote_reset {when}")
            self.open = self.filled = False
        elif event == EventKind.RESET:
            if not self.announced and not self.log.dialled and self.log.earlier is None:
                self._add(position, "reset of an accepted session that was never announced")
            self.ended_by = "reset"

    def _closed(self, position: int, record: Record) -> None:
        """A lossy session that was announced, and not ended by this side, closes with exactly one reset event."""
        own_will = self.log.marked_down is not None or record["why"].startswith(_OWN_ENDS)
        if self.lossy and self.announced and self.log.reset is None and not own_will:
            self._add(position, f"closed ({record['why']}) without a reset event")

    def _add(self, position: int, text: str) -> None:
        self.findings.add(position, f"{self.name}: {text}")
