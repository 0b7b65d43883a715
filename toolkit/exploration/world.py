"""Two nodes and the network between them: all possible steps, and the states that they lead to.

Time passes only when a timer fires. A timer may fire if no other is due before it, on either node, and timers due
at the same time fire in any order. Pauses between dials (up to ``SOON_US``) may end while frames are still on
their way, as often as the scope allows; longer timers fire only when no other step is possible: a network that
delays a frame for ten seconds, or repeatedly for longer than a pause, is faulty, and the scope limits faults.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolkit.exploration.local import Change, LocalState, LocalStates, Piece
from toolkit.exploration.node import Input, Verb
from toolkit.exploration.scope import NAMES, FaultKind, Grain, Scope

SOON_US = 5_000_000
IDLE_US = 500_000_000
"""Timers beyond this guard idle links; they fire only if a link may be half-open."""

DIALLING, ARRIVED, OPEN, BROKEN, SILENT, REFUSED = range(6)


class Stream(NamedTuple):
    """A byte stream, or the attempt to open one."""

    by: int
    """Index of the node that dialled."""
    near: int
    """The name of the link at the connector; -1 once that side has closed it."""
    far: int
    """The name of the link at the acceptor; -1 before the dial arrives, and once that side has closed it."""
    phase: int
    out: tuple[Piece, ...] = ()
    """Frames on their way from the connector."""
    back: tuple[Piece, ...] = ()
    out_ends: bool = False
    """True if the end of the stream follows ``out``."""
    back_ends: bool = False

    @property
    def moves(self) -> bool:
        """True if a step of this stream is possible without a fault."""
        return self.phase in {DIALLING, ARRIVED, REFUSED, BROKEN} or (
            self.phase == OPEN and bool(self.out or self.back or self.out_ends or self.back_ends)
        )


class ExplorationStep(NamedTuple):
    """One step; its text is the format of ``--replay``."""

    what: str
    node: int = 0
    """The node, for steps of a node."""
    stream: int = -1
    """Index of the stream, for steps of a stream; -1 otherwise."""

    def __str__(self) -> str:
        if self.stream < 0:
            return f"{NAMES[self.node]}:{self.what}"
        return f"{self.what}{self.stream}" + (f"@{NAMES[self.node]}" if self.what == NOTICE else "")

    @classmethod
    def parse(cls, text: str) -> "ExplorationStep":
        """Parse the text of a step; raises ValueError."""
        name, colon, what = text.partition(":")
        if colon:
            return cls(what, NAMES.index(name))
        word = text.rstrip("ab@").rstrip("0123456789")
        number, _, name = text[len(word) :].partition("@")
        return cls(word, NAMES.index(name) if name else 0, int(number))


ARRIVE, OPENED, FORTH, BACK, NOTICE, REFUSAL = "arrive", "opened", "forth", "back", "notice", "refusal"
CONNECT, SEND, TIMER = "connect", "send", "timer"

FAULTS = frozenset(FaultKind)
_PHASES: dict[str, int] = {FaultKind.BREAK: BROKEN, FaultKind.REFUSE: REFUSED, FaultKind.HALF_OPEN: SILENT}
"""The phase of a stream after each fault."""


class State(NamedTuple):
    """The state of both nodes and the network."""

    nodes: tuple[LocalState, LocalState]
    streams: tuple[Stream, ...]
    lags_us: tuple[int, int]
    """Microseconds since the last input of each node."""
    faults: int
    """Number of faults that may still occur."""
    overtakes: int
    """Number of times that a pause may still end while frames are on their way."""


class World:
    """The steps between the states of a scope.

    Args:
        scope: the scope of the exploration.
        nodes: computes the states of the nodes; looked up unless given.
    """

    def __init__(self, scope: Scope, nodes: LocalStates | None = None) -> None:
        self.scope = scope
        self.locals = LocalStates(scope) if nodes is None else nodes
        self._eager = scope.grain is Grain.SESSION
        self._kinds = frozenset(scope.kinds)

    def start(self) -> State:
        """Return the initial state."""
        return State(
            (self.locals.start(0), self.locals.start(1)), (), (0, 0), self.scope.faults, self.scope.overtakes
        )

    # ---- possible steps

    def steps(self, state: State) -> list[ExplorationStep]:
        """Return the steps that are possible without a fault, in the order in which a fair schedule takes them."""
        steps: list[ExplorationStep] = []
        for place, stream in enumerate(state.streams):
            steps += _stream_steps(place, stream)
        busy = bool(steps)
        for index, node in enumerate(state.nodes):
            if node.can_connect:
                steps.append(ExplorationStep(CONNECT, index))
        for index, node in enumerate(state.nodes):
            if node.can_send:
                steps.append(ExplorationStep(SEND, index))
        steps += self._timers(state, busy=busy, quiet=not steps)
        return steps

    def _timers(self, state: State, *, busy: bool, quiet: bool) -> Iterator[ExplorationStep]:
        left = [_next_us(node, lag) for node, lag in zip(state.nodes, state.lags_us, strict=True)]
        earliest = min(left)
        if not quiet and (earliest > SOON_US or (busy and not state.overtakes)):
            return
        if earliest > IDLE_US and (busy or all(stream.phase != SILENT for stream in state.streams)):
            return
        for index in range(2):
            if left[index] == earliest:
                yield ExplorationStep(TIMER, index)

    def faults(self, state: State) -> list[ExplorationStep]:
        """Return the possible faults."""
        if not state.faults:
            return []
        kinds = self._kinds
        steps = []
        for place, stream in enumerate(state.streams):
            if stream.phase == DIALLING and FaultKind.REFUSE in kinds:
                steps.append(ExplorationStep(FaultKind.REFUSE, 0, place))
            if stream.phase in {ARRIVED, OPEN}:
                if FaultKind.BREAK in kinds:
                    steps.append(ExplorationStep(FaultKind.BREAK, 0, place))
                if FaultKind.HALF_OPEN in kinds:
                    steps.append(ExplorationStep(FaultKind.HALF_OPEN, 0, place))
            elif stream.phase == DIALLING and FaultKind.HALF_OPEN in kinds:
                steps.append(ExplorationStep(FaultKind.HALF_OPEN, 0, place))
        for index, node in enumerate(state.nodes):
            if FaultKind.MARK_DOWN in kinds and node.has_session:
                steps.append(ExplorationStep(FaultKind.MARK_DOWN, index))
            if FaultKind.CRASH in kinds and node.origin is not None:
                steps.append(ExplorationStep(FaultKind.CRASH, index))
        return steps

    # ---- carrying out a step

    def after(self, state: State, step: ExplorationStep) -> tuple[State, list[str]]:
        """Return the state after a step, and the violations in it."""
        run = _Run(self, state)
        run.step(step)
        if self._eager:
            while not run.wrong and (eager := _eager_step(run.streams)) is not None:
                run.step(eager)
        return run.state, run.wrong


def _next_us(node: LocalState, lag_us: int) -> int:
    return max(0, node.deadlines_us[0] - lag_us) if node.deadlines_us else 1 << 62


def _stream_steps(place: int, stream: Stream) -> Iterator[ExplorationStep]:
    phase = stream.phase
    if phase == OPEN:
        if stream.out or stream.out_ends:
            yield ExplorationStep(FORTH, 0, place)
        if stream.back or stream.back_ends:
            yield ExplorationStep(BACK, 0, place)
    elif phase == DIALLING:
        yield ExplorationStep(ARRIVE, 0, place)
    elif phase == ARRIVED:
        yield ExplorationStep(OPENED, 0, place)
    elif phase == REFUSED:
        yield ExplorationStep(REFUSAL, 0, place)
    elif phase == BROKEN:
        if stream.near >= 0:
            yield ExplorationStep(NOTICE, stream.by, place)
        if stream.far >= 0:
            yield ExplorationStep(NOTICE, 1 - stream.by, place)


def _eager_step(streams: Sequence[Stream]) -> ExplorationStep | None:
    """Return the next step before the session phase; with the grain SESSION all of these pass at once."""
    for place, stream in enumerate(streams):
        if stream.phase == ARRIVED:
            return ExplorationStep(OPENED, 0, place)
        if stream.phase == OPEN:
            if stream.out and stream.out[0].is_prelude:
                return ExplorationStep(FORTH, 0, place)
            if stream.back and stream.back[0].is_prelude:
                return ExplorationStep(BACK, 0, place)
    return None


class _Run:
    """Carries out one step."""

    def __init__(self, world: World, state: State) -> None:
        self._world = world
        self.nodes = list(state.nodes)
        self.streams = list(state.streams)
        self.lags = list(state.lags_us)
        self.faults = state.faults
        self.overtakes = state.overtakes
        self.wrong: list[str] = []

    @property
    def state(self) -> State:
        """The state after the step."""
        streams = [stream for stream in self.streams if not _is_closed(stream)]
        streams.sort(key=lambda stream: stream.by)
        nodes, lags = self.nodes, self.lags
        return State((nodes[0], nodes[1]), tuple(streams), (lags[0], lags[1]), self.faults, self.overtakes)

    def step(self, step: ExplorationStep) -> None:
        """Carry out a step."""
        what = step.what
        if what in FAULTS:
            self.faults -= 1
            self._fault(step)
        elif step.stream >= 0:
            self._stream_step(step)
        elif what == TIMER:
            self._timer(step.node)
        else:
            self._give(step.node, (Verb.CONNECT if what == CONNECT else Verb.SEND,))

    def _timer(self, index: int) -> None:
        self.overtakes -= any(stream.moves for stream in self.streams)
        left_us = _next_us(self.nodes[index], self.lags[index])
        self.lags[0] += left_us
        self.lags[1] += left_us
        self._give(index, (Verb.TIMER,))

    def _fault(self, step: ExplorationStep) -> None:
        what = step.what
        if what == FaultKind.MARK_DOWN:
            self._give(step.node, (Verb.MARK_DOWN,))
        elif what == FaultKind.CRASH:
            self._crash(step.node)
        else:
            stream = self.streams[step.stream]
            self.streams[step.stream] = stream._replace(
                phase=_PHASES[what], out=(), back=(), out_ends=False, back_ends=False
            )

    def _crash(self, index: int) -> None:
        """End a process, whose kernel closes its streams, and start another one."""
        for place, stream in enumerate(self.streams):
            link = stream.near if stream.by == index else stream.far
            if link >= 0:
                self._close(place, index)
        old = self.nodes[index]
        self.nodes[index] = self._world.locals.start(index, old.sent, old.incarnation + 1)
        self.lags[index] = 0

    def _stream_step(self, step: ExplorationStep) -> None:
        place, what = step.stream, step.what
        stream = self.streams[place]
        by = stream.by
        if what == FORTH:
            self._arrive(place, 1 - by, stream.far, stream.out, "out", "out_ends")
        elif what == BACK:
            self._arrive(place, by, stream.near, stream.back, "back", "back_ends")
        elif what == ARRIVE:
            change = self._give(1 - by, (Verb.ACCEPT,), accepting=place)
            assert change.accepted >= 0
        elif what == OPENED:
            self.streams[place] = stream._replace(phase=OPEN)
            if stream.near >= 0:
                self._give(by, (Verb.OPENED, stream.near))
        elif what == REFUSAL:
            self._give(by, (Verb.REFUSED, stream.near))
        else:
            self._give(step.node, (Verb.BROKEN, stream.near if step.node == by else stream.far))

    def _arrive(
        self, place: int, receiver: int, link: int, queue: tuple[Piece, ...], name: str, ends: str
    ) -> None:
        stream = self.streams[place]
        if queue:
            self.streams[place] = stream._replace(**{name: queue[1:]})  # type: ignore[arg-type]
            self._give(receiver, (Verb.DATA, link, queue[0].raw))
        else:
            self.streams[place] = stream._replace(**{ends: False})  # type: ignore[arg-type]
            self._give(receiver, (Verb.EOF, link))

    def _give(self, index: int, given: Input, accepting: int = -1) -> Change:
        """Pass an input to a node, and carry out its effects on the network."""
        world, lag = self._world, self.lags[index]
        found = world.locals.after(self.nodes[index], given, lag)
        if found is None:
            found = world.locals.after(self.nodes[index], given, lag, self._cookies())
        assert found is not None
        self.nodes[index], change = found
        self.lags[index] = 0
        self.wrong += [f"{NAMES[index]}: {text}" for text in change.wrong]
        if accepting >= 0:
            stream = self.streams[accepting]
            self.streams[accepting] = stream._replace(far=change.accepted, phase=ARRIVED)
        for what, link, piece in change.moves:
            if what == "dial":
                self.streams.append(Stream(index, link, -1, DIALLING))
                continue
            place = self._place(index, link)
            if what == "close":
                self._close(place, index)
            else:
                assert piece is not None
                self._write(place, index, piece)
        return change

    def _cookies(self) -> set[int]:
        taken = {*self.nodes[0].cookies, *self.nodes[1].cookies}
        for stream in self.streams:
            for piece in (*stream.out, *stream.back):
                taken.update(piece.cookies)
        return taken

    def _place(self, index: int, link: int) -> int:
        for place, stream in enumerate(self.streams):
            if link == (stream.near if stream.by == index else stream.far):
                return place
        raise AssertionError("a link without a stream")

    def _write(self, place: int, index: int, piece: Piece) -> None:
        stream = self.streams[place]
        if stream.phase not in {ARRIVED, OPEN}:
            return
        if index == stream.by:
            if stream.far >= 0:
                self.streams[place] = stream._replace(out=(*stream.out, piece))
        elif stream.near >= 0:
            self.streams[place] = stream._replace(back=(*stream.back, piece))

    def _close(self, place: int, index: int) -> None:
        """Close one end: bytes on their way to it are lost; the other end sees EOF after all written bytes."""
        stream = self.streams[place]
        is_known = stream.phase in {ARRIVED, OPEN}
        if index == stream.by:
            stream = stream._replace(near=-1, back=(), back_ends=False, out_ends=is_known and stream.far >= 0)
            if stream.phase == ARRIVED:
                stream = stream._replace(phase=OPEN)
        else:
            stream = stream._replace(far=-1, out=(), out_ends=False, back_ends=is_known and stream.near >= 0)
        self.streams[place] = stream


def _is_closed(stream: Stream) -> bool:
    if stream.phase == DIALLING:
        return stream.near < 0
    return stream.near < 0 and stream.far < 0
