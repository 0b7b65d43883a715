"""The pauses between a session's connection attempts (docs/protocol.md §3.9, §7.1)."""

from messenger.config import Config
from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.openings import GRANTS
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import Entry

_DEFAULTS = Config()
_MOST_SHORT_LINKS = 8
"""Number of links in a row that may break just after they opened before the next dial waits."""
_LEAST_OF_A_PAUSE = 0.5
"""Part of the pause that must have passed after a failed takeover."""
_ROUNDING_S = 1e-6
_LATE_S = 5.0
"""Tolerance in seconds: timers of live nodes fire late on a busy machine."""


def redial_pause(index: Index, findings: Findings) -> None:
    """redial_pause: a session dials once for each reason, and pauses between dials that fail.

    It dials at once when the application connects, when a session in STANDBY has something to send, and when an
    open link breaks. Otherwise it pauses for ms_initial_backoff, doubled with each failure up to ms_max_backoff;
    after WAIT for ms_max_backoff. It also pauses after eight links in a row that broke within ms_initial_backoff.
    No pause is longer than that.
    """
    for log in index.sessions.values():
        if log.dialled and log.last_state is not None:
            _Session(index, findings, log).judge()


class _Session:
    """Compares the dials of one session with its states."""

    def __init__(self, index: Index, findings: Findings, log: SessionLog) -> None:
        self.index = index
        self.findings = findings
        self.log = log
        self.state = ""
        self.since_s = 0.0
        """Time at which it reached the current state."""
        self.opened_s = 0.0
        self.pause_s = 0.0
        """The last pause in seconds; 0 after a link that opened."""
        self.short_links = 0
        self.short_pause_s = 0.0
        """The pause after the last short link; 0 while there are few of them."""
        self.taken_over = False
        """True if an incoming link took over the session since the last state."""
        self.due_s: float | None = None
        """Earliest time of the next dial; None if none is due."""
        self.is_known = True
        """False while the pauses depend on dials that have left the history."""

    def judge(self) -> None:
        """Judge the whole session."""
        entries: list[Entry] = [*self.log.of("state")]
        for link in self.log.links:
            entries += link.actions[:1] if link.dialled else link.decisions
        entries.sort()
        for position, record in entries:
            if record.kind == "state":
                self._on_state(position, record)
            elif record.kind == "decision":
                verdict = record.fields["verdict"]
                self.taken_over |= verdict in GRANTS or verdict.startswith("REPLACE")
            else:
                self._on_dial(position, record)
        if self.index.is_open(self.log):
            self._judge_lateness(len(self.index.history) - 1, self.index.end_s)

    def _option(self, name: str, position: int) -> float:
        return self.index.option(self.log.node, name, getattr(_DEFAULTS, name), position)

    def _on_state(self, position: int, record: Record) -> None:
        state, now_s = record.fields["state"], record.time_s
        self._judge_lateness(position, now_s)
        self.due_s = None
        self.is_known = position != self.log.earlier and (self.is_known or self._was_long(position, now_s))
        if state == SessionState.CONNECTING:
            self.due_s = now_s + self._pause(position, now_s)
        elif state == SessionState.READY:
            self.opened_s, self.pause_s = now_s, 0.0
        self.state, self.since_s, self.taken_over = state, now_s, False

    def _was_long(self, position: int, now_s: float) -> bool:
        """True if the session leaves a link after which the pauses begin anew."""
        short_s = self._option("ms_initial_backoff", position)
        return self.state == SessionState.READY and now_s - self.opened_s >= short_s

    def _pause(self, position: int, now_s: float) -> float:
        """Return the pause in seconds before a session that reaches CONNECTING dials."""
        before = self.state
        initial_s, most_s = (self._option(name, position) for name in ("ms_initial_backoff", "ms_max_backoff"))
        if before in {"", SessionState.STANDBY}:
            return 0.0
        if before == SessionState.WAIT and not self.taken_over:
            if now_s < self.since_s + most_s - _ROUNDING_S:
                self._add(
                    position, f"waits {now_s - self.since_s:.3g} s for its peer's dial, {most_s:g} s are due"
                )
            return 0.0
        if before == SessionState.READY and not self.taken_over:
            self.short_links = self.short_links + 1 if now_s - self.opened_s < initial_s else 0
            if self.short_links <= _MOST_SHORT_LINKS:
                self.short_pause_s = 0.0
            else:
                self.short_pause_s = min(self.short_pause_s * 2 or initial_s, most_s)
            return self.short_pause_s
        self.pause_s = min(self.pause_s * 2, most_s) if self.pause_s else initial_s
        return self.pause_s * _LEAST_OF_A_PAUSE if self.taken_over else self.pause_s

    def _on_dial(self, position: int, record: Record) -> None:
        if not self.is_known:
            pass
        elif self.due_s is None:
            self._add(position, f"dials {record['link']} without a reason")
        elif record.time_s < self.due_s - _ROUNDING_S:
            text = f"dials {record['link']} after {record.time_s - self.since_s:.3g} s"
            self._add(position, f"{text}, {self.due_s - self.since_s:.3g} s are due")
        else:
            self._judge_lateness(position, record.time_s)
        self.due_s = None

    def _judge_lateness(self, position: int, now_s: float) -> None:
        """A pause ends in time, unless the process is frozen or the peer's dial arrives first."""
        if not self.is_known or self.due_s is None or self.taken_over or now_s <= self.due_s + _LATE_S:
            return
        late_s = now_s - self.due_s - self.index.frozen_s(self.log.node, self.since_s, now_s)
        if late_s > _LATE_S:
            self._add(position, f"dials {late_s:.3g} s later than it should")
            self.due_s = None

    def _add(self, position: int, text: str) -> None:
        self.findings.add(position, f"{self.index.name(self.log)} {text}")
