"""Copies a running endpoint, so that several futures can start from the same state.

``copy.deepcopy`` does not work here: it does not copy functions, and timers of the core call closures that hold
links and sessions. This module copies a closure together with the objects in its cells.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from itertools import count
from random import Random
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from messenger.cephx.exchange import AuthResult
from messenger.cephx.none import NoneClient, NoneServer
from messenger.config import Config
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import AuthName, EntityName
from messenger.errors import Fault
from messenger.messages.message import Message
from messenger.perf import Counters
from messenger.pool import BufferPool
from messenger.session.policy import Policy, PolicySet
from messenger.v1 import acceptor as v1_acceptor
from messenger.v1 import connector as v1_connector
from messenger.v2 import acceptor as v2_acceptor
from messenger.v2 import connector as v2_connector
from messenger.v2.framing import FrameCaches
from messenger.v2.preamble import Layouts, MessageFrames
from toolkit.exploration.scope import Scope

Original = TypeVar("Original")
Memo = dict[int, Any]

_SHARED: tuple[type, ...] = (
    # Values that never change.
    *(int, float, bool, str, bytes, complex, type(None), type(NotImplemented), type(...), frozenset, range),
    *(type, BuiltinFunctionType, ModuleType, EntityAddr, AddrVec, EntityName, AuthName, Policy, Fault),
    # Not changed during an exploration.
    *(PolicySet, Config, Message, NoneClient, NoneServer, count, AuthResult, Scope),
    # Changed, without effect on an endpoint's behaviour: counters, caches and buffers used within one call.
    *(Counters, BufferPool, FrameCaches, Layouts, MessageFrames, memoryview),
)
_TABLES = tuple(
    table
    for module in (v1_acceptor, v1_connector, v2_acceptor, v2_connector)
    for table in (getattr(module, "ACCEPTOR", None), getattr(module, "CONNECTOR", None))
    if table is not None
)
"""Handshake tables, which links refer to and which never change."""


def clone(original: Original) -> Original:
    """Copy an object with everything that it refers to, except what all copies can share."""
    memo: Memo = {id(table): table for table in _TABLES}
    return _copy(original, memo)  # type: ignore[no-any-return]


def _copy(original: Any, memo: Memo) -> Any:  # noqa: ANN401 - anything at all
    kind = type(original)
    copier = _COPIERS.get(kind)
    if copier is None:
        copier = _COPIERS[kind] = _copier(kind)
    if copier is _same:
        return original
    done = memo.get(id(original))
    return copier(original, memo) if done is None else done


def _same(original: Any, _memo: Memo) -> Any:  # noqa: ANN401
    return original


def _copier(kind: type) -> "Copier":
    if issubclass(kind, _SHARED) or issubclass(kind, Enum):
        _CONSTANTS.add(kind)
        return _same
    if issubclass(kind, dict):
        return _copy_dict
    if issubclass(kind, tuple):
        return _copy_tuple
    names = tuple(dict.fromkeys(_slot_names(kind)))
    return lambda original, memo: _copy_object(original, memo, names)


def _slot_names(kind: type) -> Iterable[str]:
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"}:
                yield f"_{base.__name__.lstrip('_')}{name}" if _is_private(name) else name


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _copy_dict(original: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    made = memo[id(original)] = type(original)()
    if isinstance(made, defaultdict):
        made.default_factory = original.default_factory  # type: ignore[attr-defined]
    for key, value in original.items():
        if type(key) not in _CONSTANTS:
            key = _copy(key, memo)  # noqa: PLW2901
        made[key] = value if type(value) in _CONSTANTS else _copy(value, memo)
    return made


def _copy_list(original: list[Any], memo: Memo) -> list[Any]:
    made: list[Any] = []
    memo[id(original)] = made
    made.extend(_copy(item, memo) for item in original)
    return made


def _copy_deque(original: deque[Any], memo: Memo) -> deque[Any]:
    made: deque[Any] = deque()
    memo[id(original)] = made
    made.extend(_copy(item, memo) for item in original)
    return made


def _copy_set(original: set[Any], memo: Memo) -> set[Any]:
    made: set[Any] = set()
    memo[id(original)] = made
    made.update(_copy(item, memo) for item in original)
    return made


def _copy_tuple(original: tuple[Any, ...], memo: Memo) -> tuple[Any, ...]:
    items = [_copy(item, memo) for item in original]
    kind = type(original)
    return tuple(items) if kind is tuple else kind._make(items)  # type: ignore[attr-defined]


def _copy_bytearray(original: bytearray, memo: Memo) -> bytearray:
    made = memo[id(original)] = bytearray(original)
    return made


def _copy_random(original: Random, memo: Memo) -> Random:
    made = memo[id(original)] = Random()
    made.setstate(original.getstate())
    return made


def _copy_object(original: Any, memo: Memo, names: tuple[str, ...]) -> Any:  # noqa: ANN401
    kind = type(original)
    made = memo[id(original)] = kind.__new__(kind)  # type: ignore[call-overload]
    fill = object.__setattr__
    for name in names:
        try:
            value = getattr(original, name)
        except AttributeError:
            continue  # a slot that was never filled
        fill(made, name, value if type(value) in _CONSTANTS else _copy(value, memo))
    attributes = getattr(original, "__dict__", None)
    if attributes:
        filled = made.__dict__
        for name, value in attributes.items():
            filled[name] = value if type(value) in _CONSTANTS else _copy(value, memo)
    return made


def _copy_function(original: FunctionType, memo: Memo) -> FunctionType:
    closure = original.__closure__
    if closure is None:
        return original
    cells = tuple(CellType() for _ in closure)
    made = FunctionType(original.__code__, original.__globals__, original.__name__, original.__defaults__, cells)
    made.__kwdefaults__ = original.__kwdefaults__
    made.__qualname__ = original.__qualname__
    memo[id(original)] = made
    for old, new in zip(closure, cells, strict=True):
        new.cell_contents = _copy(old.cell_contents, memo)
    return made


def _copy_method(original: MethodType, memo: Memo) -> MethodType:
    return MethodType(original.__func__, _copy(original.__self__, memo))


def _copy_partial(original: partial[Any], memo: Memo) -> partial[Any]:
    arguments = [_copy(item, memo) for item in original.args]
    return partial(_copy(original.func, memo), *arguments, **_copy(original.keywords, memo))


Copier = Callable[[Any, Memo], Any]

_CONSTANTS: set[type] = {int, float, bool, str, bytes, type(None)}
"""Types that are shared; checked first, because most values have one of them."""

_COPIERS: dict[type, Copier] = {
    list: _copy_list,
    deque: _copy_deque,
    set: _copy_set,
    tuple: _copy_tuple,
    bytearray: _copy_bytearray,
    Random: _copy_random,
    FunctionType: _copy_function,
    MethodType: _copy_method,
    partial: _copy_partial,
}
