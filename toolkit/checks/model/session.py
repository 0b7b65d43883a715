"""Compares all records of a session and its links with the model."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from messenger.errors import FaultReason
from messenger.loopback import LOOPBACK_ID
from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.model.attempt import Attempt
from toolkit.checks.model.counts import Counts, is_doubtful
from toolkit.checks.model.held import Held
from toolkit.checks.model.problems import About, Problem, Problems
from toolkit.checks.model.receipts import Receipts
from toolkit.checks.records import EARLIER, FOLDED, Record
from toolkit.checks.sessions import Process, SessionLog
from toolkit.checks.wires import Entry

if TYPE_CHECKING:
    from toolkit.checks.index import Index

_OWN_ENDS = (FaultReason.MARKED_DOWN.value, FaultReason.SHUTDOWN.value)


class Model:
    """The model of one session.

    Args:
        index: the history.
        log: the session.
        delays: sessions whose deliveries an injector delays or drops, by node and number.
    """

    def __init__(self, index: "Index", log: SessionLog, delays: set[tuple[str, int]]) -> None:
        self._index = index
        self._log = log
        self._links = {link.key.link: link for link in log.links}
        self._is_v1 = any(frame.fields["tag"] == "IDENTIFY" for link in log.links for _, frame in link.talk[1:4])
        self._is_sharded = log.key.process in index.sharded
        problems = self._problems = Problems(index, log)
        self._records_messages = log.node in index.records_messages
        held = Held(log.of("send")) if self._records_messages else None
        self._counts = Counts(problems, held, lossy=index.lossy(log), is_v1=self._is_v1)
        self._attempt = Attempt(problems, self._counts, index.is_held)
        self._drops = index.setting(log.node, "unknown_message", "deliver") != "deliver" or (
            (log.node, log.key.session) in delays
        )
        self._last = 0
        prompt = not (self._is_sharded or self._drops)
        earlier = -1 if log.earlier is None else log.earlier
        self._receipts = Receipts(problems, log.of("send"), prompt=prompt, earlier=earlier)

    def problems(self) -> list[Problem]:
        """Return the records that the model does not explain."""
        entries = [entry for entry in self._log.entries if entry[1].kind in self._ACTS]
        for link in self._log.links:
            entries += [entry for entry in link.talk if entry[1].fields["tag"] in Attempt.TAGS]
            entries += link.data
            entries += link.decisions
        end = self._index.ends.get(self._log.node)
        if end is not None and not self._drops and self._log.key.process not in self._index.process_ends:
            entries.append(end)
        entries.sort()
        self._last = next(position for position, record in reversed(entries) if record.kind != "end")
        links = self._links
        for entry in entries:
            position, record = entry
            fields = record.fields
            if record.kind != "frame":
                self._ACTS[record.kind](self, position, record)
            elif fields["tag"] in Attempt.TAGS:
                self._attempt.frame(entry, links[fields["link"]])
            elif fields["tag"] == FOLDED:
                self._counts.forget()
            elif type(fields["fields"].get("seq")) is not int:
                self._attempt.lose()
            elif fields["tag"] != "ACK":
                self._message(entry, fields)
            elif fields["direction"] == "rx":
                self._counts.acknowledged(fields["fields"]["seq"])
            else:
                self._counts.acknowledges(position, fields["fields"]["seq"])
                self._receipts.acknowledged(position)
        self._end()
        return self._problems.found

    def _message(self, entry: Entry, frame: dict[str, Any]) -> None:
        fields = frame["fields"]
        if frame["direction"] == "tx":
            self._counts.sent(entry[0], fields)
            if self._records_messages:
                self._receipts.written(entry[0], fields)
            return
        link = self._links[frame["link"]]
        doubtful = self._counts.in_seq is None or is_doubtful(entry, link)
        if self._counts.received(fields, doubtful=doubtful) and self._records_messages:
            held = self._index.is_held(link, frame["tag"])
            self._receipts.received(entry, fields["seq"], doubtful=doubtful or held)

    def _on_delivery(self, position: int, record: Record) -> None:
        self._receipts.delivered(position, record)

    def _on_unsent(self, _position: int, _record: Record) -> None:
        self._counts.unsent()

    def _on_state(self, position: int, record: Record) -> None:
        fields = record.fields
        if EARLIER in fields:
            self._attempt.forget()
            self._counts.forget()
        if not (fields["state"] == SessionState.CLOSED and self._is_sharded):
            self._attempt.state(position, fields)
            self._counts.compare(position, record)
        self._settle(fields)

    def _on_event(self, position: int, record: Record) -> None:
        event = record.fields["event"]
        if event == EventKind.REMOTE_RESET:
            if not self._drops:
                self._receipts.settle()
            if self._counts.held is not None:
                self._counts.held.clear(position, record.time_s)
        self._attempt.event(position, event, is_v1=self._is_v1)

    def _on_decision(self, _position: int, record: Record) -> None:
        self._attempt.decision(record, self._links[record.fields["link"]])

    def _on_link(self, _position: int, record: Record) -> None:
        if record.fields["action"] == "dial":
            self._attempt.dialled(self._links[record.fields["link"]])

    def _on_rest(self, _position: int, _record: Record) -> None:
        self._receipts.settle()

    def _settle(self, fields: dict[str, object]) -> None:
        """Report undelivered messages: when a state changes, those of the last link must have been delivered."""
        if self._drops:
            return
        if fields["state"] == SessionState.CLOSED and (
            self._is_sharded or self._log.marked_down is not None or str(fields["why"]).startswith(_OWN_ENDS)
        ):
            self._receipts.close()
        else:
            self._receipts.settle()

    @property
    def is_certain(self) -> bool:
        """True if its numbers were never unknown."""
        return self._attempt.is_certain

    def kept_at(self, position: int) -> int | None:
        """Return the number of messages kept for replay at ``position``; None if it is unknown."""
        if not self._index.is_open(self._log):
            return 0
        return self._counts.unacknowledged if self._last < position else None

    def _end(self) -> None:
        index, process = self._index, self._log.key.process
        if process in index.process_ends or self._drops:
            return
        if index.at_rest:
            self._receipts.settle()
        elif self._receipts.prompt:
            self._receipts.settle_before(index.end_s)

    _ACTS: ClassVar[Mapping[str, Callable[["Model", int, Record], None]]] = {
        "deliver": _on_delivery,
        "unhandled": _on_delivery,
        "unsent": _on_unsent,
        "state": _on_state,
        "event": _on_event,
        "decision": _on_decision,
        "link": _on_link,
        "end": _on_rest,
    }


class Models:
    """The models of all sessions of a history.

    Args:
        index: the history.
    """

    def __init__(self, index: "Index") -> None:
        self.problems: dict[About, list[Problem]] = {about: [] for about in About}
        """Problems of all models, by subject."""
        self.followed: set[SessionLog] = set()
        """The sessions whose numbers were never unknown."""
        if not index.by_kind.get("link"):
            return  # such a history has no decisions either
        delays = {
            (record.node, record["session"])
            for _, record in index.by_kind.get("inject", ())
            if record.fields.get("session") is not None
        }
        kept: dict[Process, int | None] = {}
        for log in index.sessions.values():
            if log.key.session == LOOPBACK_ID or not log.shows_frames:
                continue
            model = Model(index, log, delays)
            for problem in model.problems():
                self.problems[problem.about].append(problem)
            if model.is_certain:
                self.followed.add(log)
            end = index.ends.get(log.node)
            if end is not None:
                before, more = kept.get(log.key.process, 0), model.kept_at(end[0])
                kept[log.key.process] = None if before is None or more is None else before + more
        self._judge_ends(index, kept)

    def _judge_ends(self, index: "Index", kept: dict[Process, int | None]) -> None:
        """A node at rest keeps for replay exactly the messages that are not acknowledged."""
        for node, (position, record) in index.ends.items():
            sent = kept.get(index.process(node))
            if index.alive(node) and sent is not None and sent != record["sent"]:
                text = f"{node} keeps {record['sent']} messages for replay at rest"
                text = f"{text}, by its frames {sent} are not acknowledged"
                self.problems[About.SEQ].append(Problem(position, text, About.SEQ))
