"""The states of single nodes; each transition is computed once, however often it occurs.

A node's next state depends only on its state and its input. Two nodes and a network have many states, one node has
few. An endpoint therefore runs only for a pair of state and input that has not occurred before; all others are
looked up.
"""

from collections import OrderedDict
from typing import Any

from toolkit.exploration.copies import clone
from toolkit.exploration.digest import COOKIES, Digest
from toolkit.exploration.node import Accepted, Closed, Dialled, Effect, Input, Node, Wrong, Wrote
from toolkit.exploration.scope import Scope

_PRELUDE = frozenset(
    {
        *("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_DONE", "AUTH_SIGNATURE", "IDENTIFY"),
        *("COMPRESSION_REQUEST", "COMPRESSION_DONE"),
    }
)
"""Frames of the handshake before the session phase."""
_FROM_PEER = frozenset({"SESSION_RETRY_GLOBAL", "RETRY_GLOBAL"})
"""Frames (on v1, replies) whose global_seq is one of the receiver's."""
_COUNTING = frozenset({"SEQ", "READY", "RETRY_SESSION"})
"""Replies of v1 that have a connect_seq."""
_LIVE_NODES = 8000
"""Number of endpoints that are kept; others are rebuilt from the inputs that led to them."""


class Piece:
    """One frame on its way; equal bytes give the same object."""

    __slots__ = ("connect_seqs", "cookies", "form", "is_prelude", "own_seqs", "peer_seqs", "raw", "tag")

    def __init__(self, raw: bytes, tag: str, fields: tuple[tuple[str, Any], ...], form: int) -> None:
        named = dict(fields)
        self.raw = raw
        self.tag = tag if "tag" not in named else f"{tag} {named['tag']}"
        self.form = form
        """A number that identifies the frame without its cookies, global_seqs and connect_seqs."""
        self.cookies = tuple(value for name, value in fields if name in COOKIES)
        seqs = (named["global_seq"],) if "global_seq" in named else ()
        foreign = tag in _FROM_PEER or named.get("tag") in _FROM_PEER
        self.own_seqs: tuple[int, ...] = () if foreign else seqs
        """The sender's global_seqs."""
        self.peer_seqs: tuple[int, ...] = seqs if foreign else ()
        counts = named.get("tag", "SEQ") in _COUNTING and "connect_seq" in named
        self.connect_seqs: tuple[int, ...] = (named["connect_seq"],) if counts else ()
        self.is_prelude = tag in _PRELUDE

    def __repr__(self) -> str:
        return self.tag


class Change:
    """The effects of a node on the network."""

    __slots__ = ("accepted", "moves", "wrong")

    def __init__(self, effects: list[Effect], pieces: "Pieces") -> None:
        self.moves: list[tuple[str, int, Piece | None]] = []
        """``dial``, ``write`` or ``close``, the link's name, and the written frame (None unless ``write``)."""
        self.accepted = -1
        """The name of the accepted link; -1 if none was accepted."""
        self.wrong: list[str] = []
        for effect in effects:
            if isinstance(effect, Wrote):
                self.moves.append(("write", effect.link, pieces.of(effect)))
            elif isinstance(effect, Dialled):
                self.moves.append(("dial", effect.link, None))
            elif isinstance(effect, Closed):
                self.moves.append(("close", effect.link, None))
            elif isinstance(effect, Accepted):
                self.accepted = effect.link
            elif isinstance(effect, Wrong):
                self.wrong.append(effect.text)


class Pieces:
    """All frames so far; equal frames share one :class:`Piece`."""

    def __init__(self) -> None:
        self._known: dict[bytes, Piece] = {}
        self._forms: dict[object, int] = {}

    def of(self, wrote: Wrote) -> Piece:
        """Return the piece of a written frame."""
        piece = self._known.get(wrote.raw)
        if piece is None:
            taken_out = {*COOKIES, "global_seq", "connect_seq"}
            names = {name for name, _ in wrote.fields}
            kept = tuple((name, repr(value)) for name, value in wrote.fields if name not in taken_out)
            key = (wrote.tag, kept) if names & taken_out else wrote.raw
            form = self._forms.setdefault(key, len(self._forms))
            piece = self._known[wrote.raw] = Piece(wrote.raw, wrote.tag, wrote.fields, form)
        return piece


class LocalState:
    """The state of one node."""

    __slots__ = (
        *(
            "can_connect",
            "can_send",
            "connect_seqs",
            "cookies",
            "deadlines_us",
            "form",
            "futures",
            "got",
            "has_session",
        ),
        *("incarnation", "index", "links", "origin", "own_seqs", "peer_seqs", "sent", "unsettled"),
    )

    def __init__(self, node: Node, digest: Digest, form: int, origin: "Origin | None") -> None:
        self.form = form
        """A number that identifies the state without the numbers and names below."""
        self.cookies = digest.cookies
        self.own_seqs = digest.own_seqs
        self.peer_seqs = digest.peer_seqs
        self.connect_seqs = digest.connect_seqs
        self.deadlines_us = digest.deadlines_us
        self.links = digest.links
        self.index = node.index
        self.sent = node.sent
        self.got = tuple(node.got)
        self.incarnation = node.incarnation
        self.can_connect = node.can_connect
        self.can_send = node.can_send
        self.has_session = node.session is not None
        self.unsettled = node.unsettled
        self.origin = origin
        """How it was first reached; None for the initial state of a process."""
        self.futures: dict[object, tuple[LocalState, Change]] = {}
        """The next state and the change, by input and elapsed time."""


Origin = tuple[LocalState, Input, int, int]
"""The state before, the input, the time between them in microseconds, and the number of the next cookie."""


class LocalStates:
    """The states of the nodes of a scope.

    Args:
        scope: the scope of the exploration.
        live_nodes: number of endpoints to keep.
    """

    def __init__(self, scope: Scope, live_nodes: int = _LIVE_NODES) -> None:
        self._scope = scope
        self._live_nodes = live_nodes
        self._pieces = Pieces()
        self._forms: dict[tuple[Any, ...], int] = {}
        self._known: dict[object, LocalState] = {}
        self._live: OrderedDict[LocalState, Node] = OrderedDict()
        self.runs = 0
        """Number of inputs that an endpoint has handled."""

    def __len__(self) -> int:
        return len(self._known)

    def start(self, index: int, sent: int = 0, incarnation: int = 1) -> LocalState:
        """Return the initial state of a process.

        Args:
            index: the node, 0 or 1.
            sent: number of messages that earlier incarnations have sent.
            incarnation: number of the process at this address, from 1.
        """
        return self._keep(Node(self._scope, index, sent, incarnation), None)

    def after(
        self, state: LocalState, given: Input, elapsed_us: int, taken: set[int] | None = None
    ) -> tuple[LocalState, Change] | None:
        """Return the next state of a node after an input, and its effects.

        Args:
            state: the node's state.
            given: the input.
            elapsed_us: microseconds since the node's last input.
            taken: cookies in use; if None, the result is None where it depends on them.
        """
        found = state.futures.get((given, elapsed_us))
        if found is not None:
            return found
        if taken is None:
            return None
        node = self._node(state)
        fresh = node.chance.free(taken)
        found = state.futures.get((given, elapsed_us, fresh))
        if found is not None:
            return found
        node = clone(node)
        node.chance.fresh = fresh
        effects = node.take(given, elapsed_us)
        self.runs += 1
        did_draw = node.chance.draws > 0
        change = Change(effects, self._pieces)
        made = self._keep(node, (state, given, elapsed_us, fresh))
        state.futures[(given, elapsed_us, fresh) if did_draw else (given, elapsed_us)] = made, change
        return made, change

    def _keep(self, node: Node, origin: Origin | None) -> LocalState:
        digest = node.digest()
        form = self._forms.setdefault((node.index, node.incarnation, *digest.form), len(self._forms))
        numbers = (digest.cookies, digest.own_seqs, digest.peer_seqs, digest.connect_seqs, digest.deadlines_us)
        key = (form, digest.links, *numbers)
        state = self._known.get(key)
        if state is None:
            state = self._known[key] = LocalState(node, digest, form, origin)
        self._remember(state, node)
        return state

    def _remember(self, state: LocalState, node: Node) -> None:
        self._live[state] = node
        self._live.move_to_end(state)
        if len(self._live) > self._live_nodes:
            self._live.popitem(last=False)

    def _node(self, state: LocalState) -> Node:
        """Return an endpoint in that state; copy it before use."""
        node = self._live.get(state)
        if node is None:
            node = self._again(state)
            self._remember(state, node)
        return node

    def _again(self, state: LocalState) -> Node:
        inputs: list[Origin] = []
        at = state
        while at.origin is not None and at not in self._live:
            inputs.append(at.origin)
            at = at.origin[0]
        live = self._live.get(at)
        node = Node(self._scope, at.index, at.sent, at.incarnation) if live is None else clone(live)
        for _, given, elapsed_us, fresh in reversed(inputs):
            node.chance.fresh = fresh
            node.take(given, elapsed_us)
        return node
