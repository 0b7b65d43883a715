"""INV-3 and INV-4: what the application is told, and in which order."""

from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog

_OPENING = (EventKind.ACCEPT, EventKind.CONNECT)
_OWN_ENDS = (FaultReason.MARKED_DOWN.value, FaultReason.SHUTDOWN.value)
"""Why a session closes without an event: this side wanted it."""


def no_message_after_end(index: Index, findings: Findings) -> None:
    """INV-3: nothing of a session is delivered behind its reset, remote_reset or mark_down."""
    for delivery in index.streams.deliveries:
        log = delivery.log
        what = f"{index.name(log)}: tid {index.history[delivery.position]['tid']} is delivered"
        if log.marked_down is not None and log.marked_down < delivery.position:
            findings.add(delivery.position, f"{what} after mark_down returned")
        elif log.reset is not None and log.reset < delivery.position:
            findings.add(delivery.position, f"{what} after the session's reset")
        elif delivery.sent is not None:
            ended = delivery.sent.source.ended
            resets = [at for at in log.remote_resets if at < delivery.position]
            if ended is not None and resets and ended < resets[-1]:
                sender = index.name(delivery.sent.source.log)
                text = f"{what} after remote_reset, but {sender} sent it before, in the session that was reset"
                findings.add(delivery.position, text)


def event_grammar(index: Index, findings: Findings) -> None:
    """INV-4: (accept | connect) (message | accept | connect | remote_reset)* [reset], and nothing behind.

    A dial that cannot ever succeed ends in a reset without a connect (protocol.md §4.2).
    """
    for log in index.sessions.values():
        _Grammar(index, findings, log).judge()


class _Grammar:
    """Walks over one session's events and messages."""

    def __init__(self, index: Index, findings: Findings, log: SessionLog) -> None:
        self.findings = findings
        self.log = log
        self.lossy = index.lossy(log)
        self.name = index.name(log)
        self.announced = False
        self.open = False
        """Announced, and not reset by the peer since."""
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
            elif record.kind == "mark_down":
                self.ended_by = self.ended_by or "mark_down"
            elif record.kind == "state" and record["state"] == SessionState.CLOSED:
                self._closed(position, record)

    def _event(self, position: int, event: str) -> None:
        if self.ended_by:
            self._add(position, f"{event} after {self.ended_by}")
        elif event in _OPENING:
            self.announced = self.open = True
        elif event == EventKind.REMOTE_RESET:
            if not self.open:
                when = "twice without accept or connect between" if self.announced else "before accept or connect"
                self._add(position, f"remote_reset {when}")
            self.open = False
        elif event == EventKind.RESET:
            if not self.announced and not self.log.dialled:
                self._add(position, "reset of an accepted session that was never announced")
            self.ended_by = "reset"

    def _closed(self, position: int, record: Record) -> None:
        """A lossy session that was announced and ends by no will of this side has exactly one reset."""
        own_will = self.log.marked_down is not None or record["why"].startswith(_OWN_ENDS)
        if self.lossy and self.announced and self.log.reset is None and not own_will:
            self._add(position, f"closed ({record['why']}) without a reset event")

    def _add(self, position: int, text: str) -> None:
        self.findings.add(position, f"{self.name}: {text}")
