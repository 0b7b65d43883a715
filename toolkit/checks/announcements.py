"""Session events: one for each link that opens a session."""

from math import inf

from messenger.loopback import LOOPBACK_ID
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.index import Index
from toolkit.checks.openings import GRANTS, Opening
from toolkit.checks.result import Findings
from toolkit.checks.sessions import SessionLog
from toolkit.checks.wires import LinkLog

_OPENING = (EventKind.ACCEPT, EventKind.CONNECT)
_REPORTED_KINDS = frozenset({"state", "event", "deliver"})


def one_event_per_link(index: Index, findings: Findings) -> None:
    """one_event_per_link: one READY state and one connect or accept event follow each link that opens a session.

    A connector raises the event directly after READY, an acceptor before it writes the answer, even if the answer
    is then lost. Every READY state has a frame that opened the session.
    """
    if not index.by_kind.get("state"):
        return  # as in captures, which have no records of sessions
    if not index.by_kind.get("link"):
        return
    for log in index.sessions.values():
        if log.key.session != LOOPBACK_ID and all(link.is_whole for link in log.links):
            _Session(index, findings, log).judge()


class _Session:
    """Compares the READY states and the events of one session with its links."""

    def __init__(self, index: Index, findings: Findings, log: SessionLog) -> None:
        self.index = index
        self.findings = findings
        self.log = log
        self.name = index.name(log)
        self.by_priority = index.setting(log.node, "dispatch_by_priority", default=False)
        """True if messages are dispatched by priority, so that one may be delivered before an older event."""
        self.openings = index.openings.get(log, [])
        self.explained: set[int] = set()
        """Positions of events and states that belong to a link."""

    def judge(self) -> None:
        """Judge the whole session."""
        for opening in self.openings:
            self._judge_ready(opening)
        self._judge_connector_events()
        for link in self.log.links:
            if not link.dialled and link.decisions:
                self._judge_acceptor_event(link)
        for position, record in self.log.of("event"):
            opens = record.fields["event"] in _OPENING
            if opens and position not in self.explained and not self._is_unnamed(position):
                self._add(position, f"{record['event']} without a link that opens it")
        for position, record in self.log.of("state"):
            if record.fields["state"] == SessionState.READY and position not in self.explained:
                self._add(position, "READY without a frame that opens it")

    def _judge_ready(self, opening: Opening) -> None:
        """READY follows the answer, unless the link breaks at once or an interceptor holds it."""
        if opening.ready is not None:
            self.explained.add(opening.ready[0])
            return
        link = opening.link
        tag = opening.answer[1].fields["tag"]
        broke = link.dialled and any(at > opening.at for at, _ in link.faults)
        # An acceptor is READY before it reads SEQ.
        held = self.index.is_held(link, tag) or (link.dialled and self.index.is_held(link, "SEQ"))
        if not (broke or held or self._is_last(opening.at)):
            self._add(opening.at, f"{tag} on {link.key.link} is not followed by READY")

    def _judge_connector_events(self) -> None:
        """A connector raises its event directly after READY."""
        readies = {
            opening.ready[0]: opening
            for opening in self.openings
            if opening.ready is not None and opening.link.dialled
        }
        due: Opening | None = None
        for position, record in self.log.entries:
            kind = record.kind
            if kind not in _REPORTED_KINDS or (kind == "deliver" and self.by_priority):
                continue
            if due is not None:
                if record.fields.get("event") == due.kind:
                    self.explained.add(position)
                else:
                    self._add_missing(due, position)
            due = readies.get(position)
        if due is not None and not self._is_last(due.ready[0] if due.ready else due.at):
            self._add_missing(due, due.at)

    def _add_missing(self, opening: Opening, position: int) -> None:
        self._add(position, f"READY on {opening.link.key.link} is not followed by its {opening.kind} event")

    def _judge_acceptor_event(self, link: LinkLog) -> None:
        """An acceptor raises one event between its decision and its answer."""
        granted = max((at for at, record in link.decisions if record.fields["verdict"] in GRANTS), default=None)
        opening = next((one for one in self.openings if one.link is link), None)
        if granted is None:
            return
        until = opening.at if opening is not None else inf if link.closed is None else link.closed
        reported = [
            position
            for position, record in self.log.of("event")
            if granted < position < until and record.fields["event"] == EventKind.ACCEPT
        ]
        self.explained.update(reported[:1])
        if opening is not None and not reported:
            self._add(
                opening.at, f"{opening.answer[1]['tag']} on {link.key.link} without an accept event before it"
            )

    def _is_last(self, position: int) -> bool:
        """True if the process or the history ended before anything after ``position`` could be recorded."""
        records = self.index.history.records
        goes_on = self.log.node in self.index.ends or self.index.end_s > records[position].time_s
        return not goes_on or self.index.is_cut_off(self.log.key.process, position)

    def _is_unnamed(self, position: int) -> bool:
        """True if the link that opens the session may not have recorded the session's number yet.

        A link records it with the answer or at its end: it is open, or its process died.
        """
        return any(
            link.session is None and link.closed is None and link.decisions and link.decisions[-1][0] < position
            for link in self.index.links.values()
            if self.index.process_of(link) == self.log.key.process
            and self.index.peer_of(link) in {None, self.log.peer_node}
        )

    def _add(self, position: int, text: str) -> None:
        self.findings.add(position, f"{self.name}: {text}")
