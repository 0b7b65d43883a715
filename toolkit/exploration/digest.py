"""The part of a node's state that decides its future, in a form that can be compared.

The walk takes every attribute of the endpoint's sessions, links and timers except those listed as meaningless: a
new attribute counts until it is listed. Numbers whose absolute values have no meaning are kept beside the form:
for cookies only equality matters, for global_seqs only order, for deadlines only the time left.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from messenger.core import Core
from messenger.link import Link
from messenger.messages.message import Message
from messenger.receive import ReceiveBuffer
from messenger.session.session import Session
from messenger.session.timers import Timer, Timers
from messenger.v1.wire import ConnectReply

COOKIES = frozenset({"client_cookie", "server_cookie"})
GLOBAL_SEQS = frozenset({"global_seq", "peer_global_seq"})
_MOMENTS = frozenset({"peer_seq_at", "signed_at"})
"""Times of the core that are only compared with each other, within the core: only their order matters."""

_MEANINGLESS = frozenset(
    {
        # References to owners, and names that other entries represent.
        *("endpoint", "host", "id", "table"),
        # For the history, performance counters and limits that no scope reaches.
        *("rx_offset", "tx_offset", "rx_frames", "tx_frames", "opened_at", "rx_transcript", "tx_transcript"),
        # Numbers of retries on a link, which grow without limit along some explored paths.
        *("rounds", "retries", "short_links"),
        # For the application, and deadlines of frames, which arrive whole here.
        *("last_fault", "deadline", "unchecked_bytes"),
        *("queued_s", "old_messages", "skipped_messages", "unwritten_bytes", "expected_signature", "peaks"),
        # Times: wall time stands still, and links only time out when no other step is possible.
        *("last_activity_s", "read_since_s", "keepalive_acked_s", "keepalive_seen_s", "acked_keepalive_sent_s"),
        # Caches.
        *("_frames", "_layouts", "_frame_bytes", "needed"),
        *("_small_bytes", "_small_preamble", "_small_segments", "_small_unpack"),
    }
)
_PLAIN: frozenset[type] = frozenset({int, str, bool, bytes, float, type(None)})


@dataclass(frozen=True, slots=True)
class Digest:
    """A node's state: its form, and the numbers that are kept beside it."""

    form: tuple[Any, ...]
    cookies: tuple[int, ...]
    own_seqs: tuple[int, ...]
    """The node's own global_seqs."""
    peer_seqs: tuple[int, ...]
    """The peer's global_seqs."""
    connect_seqs: tuple[int, ...]
    deadlines_us: tuple[int, ...]
    """Microseconds until each pending timer fires, in the order in which they fire."""
    links: tuple[int, ...]
    """Names of the links, oldest first; the form has indices into this list."""


def digest(roots: Mapping[str, object], core: Core, link_name: Callable[[int], int], now: float) -> Digest:
    """Make the digest of an endpoint and of its application's state.

    Args:
        roots: the application's state, by name.
        core: the endpoint.
        link_name: returns the name of a link by its id.
        now: the endpoint's time in seconds.
    """
    return _Walk(core, link_name).whole(roots, now)


class _Walk:
    """One walk over a node."""

    def __init__(self, core: Core, link_name: Callable[[int], int]) -> None:
        self.form: list[Any] = []
        self.cookies: list[int] = []
        self.own_seqs: list[int] = []
        self.peer_seqs: list[int] = []
        self.connect_seqs: list[int] = []
        self._moments: list[int] = []
        attributes = vars(core)
        self._endpoint = core
        self._core = attributes
        self._sessions = core.registry.sessions
        self._ranks = {session_id: rank for rank, session_id in enumerate(self._sessions)}
        self._places = {link_id: place for place, link_id in enumerate(sorted(attributes["_links"]))}
        self._links = tuple(map(link_name, self._places))

    def whole(self, roots: Mapping[str, object], now: float) -> Digest:
        """Walk over the endpoint and the application's state."""
        add = self.form.append
        core = self._core
        for name, value in roots.items():
            add(name)
            self.value(value)
        self.own_seqs.append(self._endpoint.numbers.global_seq)
        add(self._endpoint.addrs)
        for addrs, session in self._endpoint.registry.registered.items():
            add(addrs)
            self.value(session)
        for name in ("_unflushed", "_outputs", "closing", "keepalives", "_after_events"):
            add((name, len(core[name])))
        for session in self._sessions.values():
            self.attributes(session)
        for link_id in self._places:
            self.attributes(core["_links"][link_id])
        deadlines = []
        for timer in pending(core["timers"]):
            deadlines.append(max(0, round((timer.deadline_s - now) * 1e6)))
            self.value(timer.callback)
        order = sorted({0, *self._moments})
        self.form += map(order.index, self._moments)
        return Digest(
            tuple(self.form),
            tuple(self.cookies),
            tuple(self.own_seqs),
            tuple(self.peer_seqs),
            tuple(self.connect_seqs),
            tuple(deadlines),
            self._links,
        )

    def attributes(self, owner: object) -> None:
        """Add every meaningful attribute of an object."""
        kind = type(owner)
        names = _NAMES.get(kind)
        if names is None:
            names = _NAMES[kind] = _names_of(kind)
        self.form.append(kind.__name__)
        for name in names:
            value = getattr(owner, name, None)
            if name in COOKIES:
                self.form.append(bool(value))
                self.cookies.append(value)  # type: ignore[arg-type]
            elif name in GLOBAL_SEQS:
                self._global_seq(owner, name, value)  # type: ignore[arg-type]
            elif name in _MOMENTS:
                self._moments.append(value)  # type: ignore[arg-type]
            elif name == "connect_seq":
                self.connect_seqs.append(value)  # type: ignore[arg-type]
            else:
                self.value(value)

    def _global_seq(self, owner: object, name: str, value: int) -> None:
        if name == "peer_global_seq" or isinstance(owner, ConnectReply):
            self.peer_seqs.append(value)
        elif isinstance(owner, Session) and _is_dialling(owner):
            self.own_seqs.append(value)

    def value(self, value: Any) -> None:  # noqa: ANN401 - anything at all
        """Add one value."""
        add = self.form.append
        kind = type(value)
        if kind in _PLAIN or isinstance(value, Enum):
            add(value)
        elif isinstance(value, Session):
            add(("session", self._ranks.get(value.id)))
        elif isinstance(value, Link):
            add(("link", self._places.get(value.id)))
        elif kind is Message:
            add(("message", value.tid))
        elif kind is Timer:
            add(value.callback is not None)
        elif isinstance(value, dict):
            add(len(value))
            for key, inner in value.items():
                add(key)
                self.value(inner)
        elif isinstance(value, deque | list | tuple):
            add(len(value))
            for inner in value:
                self.value(inner)
        elif kind is ReceiveBuffer:
            add(value.held_bytes)
            self.value(value._rest)  # noqa: SLF001 - the beginning of an incomplete frame
        elif callable(value) and isinstance(value, FunctionType | MethodType | partial):
            self._callback(value)
        elif isinstance(value, Core):
            pass
        elif _is_constant(kind):
            add(value)
        else:
            self.attributes(value)

    def _callback(self, value: FunctionType | MethodType | partial[Any]) -> None:
        if isinstance(value, partial):
            self.value(value.func)
            self.value(value.args)
        elif isinstance(value, MethodType):
            self.form.append(value.__func__.__qualname__)
            self.value(value.__self__)
        else:
            self.form.append(value.__qualname__)
            for cell in value.__closure__ or ():
                self.value(cell.cell_contents)


def _is_dialling(session: Session) -> bool:
    """True if its global_seq is not announced yet; each dial and each accept sets a new one."""
    return session.link is not None and session.link.connector and not session.link.open


_NAMES: dict[type, tuple[str, ...]] = {}


def _names_of(kind: type) -> tuple[str, ...]:
    slots = [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]
    return tuple(name for name in dict.fromkeys(slots) if name not in _MEANINGLESS)


def _is_constant(kind: type) -> bool:
    """True if it is a frozen dataclass: equal by its content, and hashable."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def pending(timers: Timers) -> list[Timer]:
    """Return the timers that will fire, in that order, and remove cancelled ones from the heap."""
    heap = timers._heap  # noqa: SLF001 - no public call removes cancelled timers before their deadline
    heap[:] = sorted(timer for timer in heap if timer.callback is not None)
    return list(heap)
