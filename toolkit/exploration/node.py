"""One node of an exploration: an endpoint, and an application that sends and checks, driven from outside."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from messenger.cephx.none import NoneClient, NoneServer
from messenger.config import Config
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.endpoint import Endpoint
from messenger.errors import Fault, FaultReason
from messenger.messages.message import Message
from messenger.messages.types import MessageType
from messenger.outputs import (
    CloseLink,
    Deliver,
    EventKind,
    OpenLink,
    Output,
    PauseLink,
    SessionEvent,
    TraceRecord,
    WriteLink,
)
from messenger.session.policy import PolicySet
from messenger.session.session import Session, SessionState
from toolkit.exploration.digest import Digest, digest
from toolkit.exploration.scope import NAMES, Scope

_WALL_S = 1_700_000_000.0
_MAX_DRAINS = 1000
ADDRS = ("10.0.0.1:6801/1", "10.0.0.2:6802/2")
_SEEN = EntityAddr.parse("any:10.9.9.9:40000/0")
OPTIONS: dict[str, object] = {}
"""Config options of both nodes that differ from the defaults, for experiments."""
_COOKIE = 0xC00C_1E00_0000_0000
_OUT_SEQS = (0x1000, 0x200_0000)


class Verb:
    """The inputs of a node; the other elements of an input are its arguments."""

    CONNECT = "connect"
    SEND = "send"
    MARK_DOWN = "mark_down"
    ACCEPT = "accept"
    """A dial of the peer arrives."""
    OPENED = "opened"
    """A dial of the node has succeeded; the argument is the link's name."""
    DATA = "data"
    """Bytes arrive on a link."""
    BROKEN = "broken"
    REFUSED = "refused"
    EOF = "eof"
    TIMER = "timer"
    """The earliest timer is due."""


Input = tuple[Any, ...]
Recorder = Callable[[TraceRecord], None]
"""Called with each trace record of a node."""


class Dialled(NamedTuple):
    """The node dials; ``link`` is the name of the link."""

    link: int


class Accepted(NamedTuple):
    """The node has accepted a link; ``link`` is its name."""

    link: int


class Wrote(NamedTuple):
    """The node has written one frame."""

    link: int
    raw: bytes
    tag: str
    fields: tuple[tuple[str, Any], ...]


class Closed(NamedTuple):
    """The node has closed a link."""

    link: int


class Wrong(NamedTuple):
    """A violation."""

    text: str


Effect = Dialled | Accepted | Wrote | Closed | Wrong


class Chance:
    """A substitute for a random source: ``fresh`` sets the next cookie, and nothing else is random."""

    __slots__ = ("_namespace", "draws", "fresh", "resets")

    def __init__(self, index: int) -> None:
        self._namespace = _COOKIE | index << 32
        self.fresh = 0
        self.draws = 0
        self.resets = 0

    def getrandbits(self, bits: int, /) -> int:
        """Return an unused cookie for 64 bits, one of two distant seqs in turn for 31 bits, otherwise zero."""
        if bits == 64:
            self.draws += 1
            return self._namespace | (self.fresh + self.draws)
        if bits == 31:
            self.resets ^= 1
            return _OUT_SEQS[self.resets]
        return 0

    def randbytes(self, size: int, /) -> bytes:
        """Return zeros."""
        return bytes(size)

    def free(self, taken: set[int]) -> int:
        """Return the value of ``fresh`` with which the next cookie is not in ``taken``."""
        return next(number for number in count() if self._namespace | (number + 1) not in taken)


@dataclass(slots=True)
class Seen:
    """The application's view of a session."""

    is_open: bool = False
    """True from its connect or accept event until a reset."""
    is_over: bool = False


class Node:
    """A node.

    Args:
        scope: the scope of the exploration.
        index: 0 or 1.
        sent: number of messages that earlier incarnations have sent.
        incarnation: number of the process at this address, from 1.
    """

    def __init__(self, scope: Scope, index: int, sent: int = 0, incarnation: int = 1) -> None:
        self.scope = scope
        self.index = index
        self.incarnation = incarnation
        self.now = 0.0
        self.chance = Chance(index)
        self.endpoint = _new_endpoint(scope, index, self.chance)
        self.session: Session | None = None
        """The session that the application uses."""
        self.sent = sent
        self.may_connect = scope.pair.dials[index]
        self.got: list[int] = []
        """Tids of messages from the peer since the application's session began."""
        self._names: dict[int, int] = {}
        self._record: Recorder | None = None
        self._peer_addrs = AddrVec.parse(f"{scope.protocol}:{ADDRS[1 - index]}")

    # ---- possible inputs

    @property
    def can_connect(self) -> bool:
        """True if the application may dial and has no session."""
        return self.may_connect and self.session is None

    @property
    def can_send(self) -> bool:
        """True if the application has a session and a message left to send."""
        return self.session is not None and self.sent < self.scope.messages[self.index]

    # ---- inputs

    def take(self, given: Input, elapsed_us: int, record: "Recorder | None" = None) -> list[Effect]:
        """Handle one input, ``elapsed_us`` microseconds after the previous one.

        Args:
            given: a Verb and its arguments.
            elapsed_us: microseconds since the last call.
            record: called with each trace record; None to write no history.
        """
        self._record = record
        self.now += elapsed_us / 1e6
        if given[0] == Verb.TIMER:
            self.now = max(self.now, self.endpoint.next_deadline() or 0.0)
        self.endpoint.wall_offset_s = _WALL_S - self.now  # wall time stands still
        self.chance.draws = 0
        effects: list[Effect] = []
        try:
            self._input(given, effects)
            self._pump(effects)
        except Exception as error:  # noqa: BLE001 - an exception from the endpoint is a violation
            effects.append(Wrong(f"{type(error).__name__} escapes: {error}"))
        effects += map(Wrong, self._accounting())
        return effects

    def _input(self, given: Input, effects: list[Effect]) -> None:
        endpoint, now = self.endpoint, self.now
        verb, *arguments = given
        if verb == Verb.CONNECT:
            self.may_connect = False
            self.session = endpoint.connect(self._peer_addrs, EntityType.OSD, now)
            _seen(self.session)
        elif verb == Verb.SEND:
            self.sent += 1
            message = Message(
                MessageType.PING, data=b"%s%d" % (NAMES[self.index].encode(), self.sent), tid=self.sent
            )
            assert self.session is not None
            self._record_message("send", self.session, message)
            if not endpoint.send(self.session, message, now):
                effects.append(Wrong("the endpoint rejects a message for an open session"))
        elif verb == Verb.MARK_DOWN:
            assert self.session is not None
            endpoint.mark_down(self.session, now)
            _seen(self.session).is_over = True
            self._session_is_over()
        elif verb == Verb.ACCEPT:
            link_id = endpoint.link_accepted(_SEEN, now, self.scope.protocol)
            effects.append(Accepted(self._name(link_id)))
        elif verb == Verb.TIMER:
            endpoint.timer(now)
        else:
            self._link_input(verb, self._link_id(arguments[0]), arguments[1:])

    def _link_input(self, verb: str, link_id: int, arguments: list[Any]) -> None:
        endpoint, now = self.endpoint, self.now
        if verb == Verb.OPENED:
            endpoint.link_opened(link_id, _SEEN, now)
        elif verb == Verb.DATA:
            endpoint.link_data(link_id, arguments[0], now)
        elif verb == Verb.EOF:
            endpoint.link_eof(link_id, now)
        elif verb == Verb.REFUSED:
            endpoint.link_failed(link_id, FaultReason.REFUSED, "connection refused", now)
        else:
            assert verb == Verb.BROKEN
            endpoint.link_failed(link_id, FaultReason.SOCKET, "connection reset by peer", now)

    def _session_is_over(self) -> None:
        self.session = None
        self.got = []
        self.may_connect = self.scope.pair.dials[self.index]

    # ---- outputs

    def _pump(self, effects: list[Effect]) -> None:
        frames: dict[int, list[dict[str, Any]]] = {}
        closed: list[int] = []
        paused: set[int] = set()
        for _ in range(_MAX_DRAINS):
            outputs = self.endpoint.drain(self.now)
            if not outputs:
                for link_id in closed:
                    del self._names[link_id]
                if paused.difference(closed):
                    effects.append(Wrong("a link stays paused, although all messages are released"))
                return
            for output in outputs:
                if isinstance(output, TraceRecord):
                    fields = output.fields
                    if output.kind == "frame" and fields["direction"] == "tx":
                        frames.setdefault(fields["link"], []).append(fields)  # type: ignore[arg-type]
                    if self._record is not None:
                        self._record(output)
                elif isinstance(output, WriteLink):
                    self._written(output, frames.pop(output.link_id), effects)
                elif isinstance(output, CloseLink):
                    closed.append(output.link_id)
                    effects.append(Closed(self._names[output.link_id]))
                elif isinstance(output, PauseLink):  # until the application has handled the event
                    (paused.add if output.paused else paused.discard)(output.link_id)
                else:
                    self._carry_out(output, effects)
        effects.append(Wrong("the endpoint does not come to rest"))

    def _carry_out(self, output: Output, effects: list[Effect]) -> None:
        if isinstance(output, OpenLink):
            effects.append(Dialled(self._name(output.link_id)))
        elif isinstance(output, Deliver):
            for message in output.messages:
                self._record_message("deliver", output.session, message)
                effects += map(Wrong, self._delivered(output.session, message))
            self.endpoint.release(output.size_bytes, self.now, output.session, len(output.messages))
        elif isinstance(output, SessionEvent):
            effects += map(Wrong, self._event(output.session, output.kind, output.fault))
        else:
            effects.append(Wrong(f"{type(output).__name__} is an unexpected output in this scope"))

    def _record_message(self, kind: str, session: Session, message: Message) -> None:
        """Write a record of the application."""
        if self._record is None:
            return
        data = bytes(message.data)
        fields = {
            "session": session.id,
            "peer": str(session.peer_addrs),
            "tid": message.tid,
            "digest": data.hex(),
            "size": len(data),
        }
        if kind == "deliver":
            fields["seq"] = message.seq
        self._record(TraceRecord(self.now, kind, fields))

    def _written(self, output: WriteLink, frames: list[dict[str, Any]], effects: list[Effect]) -> None:
        raw = b"".join(output.buffers)
        self.endpoint.link_written(output.link_id, len(raw), self.now)
        name = self._names[output.link_id]
        position = 0
        for frame in frames:
            end = position + frame["length"]
            effects.append(Wrote(name, raw[position:end], frame["tag"], tuple(frame["fields"].items())))
            position = end
        assert position == len(raw), "the frame records and the written bytes differ in length"

    # ---- the application's checks

    def _delivered(self, session: Session, message: Message) -> list[str]:
        wrong = []
        seen = _seen(session)
        if not seen.is_open:
            wrong.append(f"message {message.tid} is delivered {'after the end' if seen.is_over else 'too early'}")
        last = self.got[-1] if self.got else 0
        if message.tid <= last:
            if not self.scope.may_repeat:
                wrong.append(f"message {message.tid} is delivered after message {last}")
        elif self.scope.is_strict and message.tid != last + 1:
            wrong.append(f"message {message.tid} is delivered, message {last + 1} is lost")
        self.got.append(message.tid)
        return wrong

    def _event(self, session: Session, kind: EventKind, fault: Fault | None) -> list[str]:
        seen = _seen(session)
        wrong = []
        if seen.is_over:
            wrong.append(f"{kind} after the end")
        if kind in {EventKind.ACCEPT, EventKind.CONNECT}:
            seen.is_open = True
            if self.session is not session:
                self.session = session
                self.got = []
        elif kind is EventKind.REMOTE_RESET:
            if not seen.is_open:
                wrong.append("remote_reset of a session that was not open")
            seen.is_open = False
        elif kind is EventKind.RESET:
            seen.is_open = False
            seen.is_over = True
            if self.session is session:
                self._session_is_over()
        if self.scope.is_strict and kind in {EventKind.RESET, EventKind.REMOTE_RESET}:
            wrong.append(f"{kind} although no side has lost a session ({fault})")
        return wrong

    def _accounting(self) -> list[str]:
        """Check INV-5 and INV-8 as far as the state of one node allows."""
        wrong = []
        sessions = self.endpoint.sessions
        ready = [session for session in sessions if session.state is SessionState.READY]
        if sum(session.policy.register_lossy_clients or not session.lossy for session in ready) > 1:
            wrong.append("two sessions with one peer are READY")
        for session in sessions:
            seqs = [seq for seq, _ in session.queue.sent]
            if seqs != list(range(session.out_seq - len(seqs) + 1, session.out_seq + 1)):
                wrong.append(f"sent {seqs} with out_seq {session.out_seq}")
            if session.acked_seq > session.out_seq:
                wrong.append(f"acked_seq {session.acked_seq} is beyond out_seq {session.out_seq}")
        return wrong

    # ---- for the explorer

    def digest(self) -> Digest:
        """Return the part of its state that decides its future."""
        app = {
            "session": self.session,
            "sent": self.sent,
            "can_connect": self.can_connect,
            "got": self.got,
            "resets": self.chance.resets,
        }
        return digest(app, self.endpoint, self._names.__getitem__, self.now)

    @property
    def unsettled(self) -> list[str]:
        """Unfinished work, one line each; a violation once no step is possible."""
        wrong = []
        for session in self.endpoint.sessions:
            what = f"session {session.id} is {session.state}"
            if session.state not in {SessionState.READY, SessionState.STANDBY}:
                wrong.append(what)
            if session.has_output:
                wrong.append(f"{what} with {len(session.queue)} messages to send")
            if session.queue.sent:
                wrong.append(f"{what}, {len(session.queue.sent)} messages are not acknowledged")
        return wrong

    def _name(self, link_id: int) -> int:
        name = self._names.get(link_id)
        if name is None:
            taken = set(self._names.values())
            name = self._names[link_id] = next(number for number in count() if number not in taken)
        return name

    def _link_id(self, name: int) -> int:
        return next(link_id for link_id, known in self._names.items() if known == name)


def _seen(session: Session) -> Seen:
    if session.user is None:
        session.user = Seen()
    seen: Seen = session.user
    return seen


def _new_endpoint(scope: Scope, index: int, chance: Chance) -> Endpoint:
    name = EntityName(EntityType.OSD, index + 1)
    return Endpoint(
        name,
        AddrVec.parse(f"{scope.protocol}:{ADDRS[index]}"),
        rng=chance,
        auth_client=NoneClient(AuthName(name.type, str(name.num)), name.num),
        auth_server=NoneServer(),
        policies=PolicySet(scope.pair.policies[index]),
        config=Config(msgr2_features=1, **OPTIONS),  # type: ignore[arg-type]
        wall_offset_s=_WALL_S,
        tracing=True,
    )
