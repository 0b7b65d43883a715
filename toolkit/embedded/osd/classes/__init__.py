"""Object classes: methods that clients call on an object, by class and name."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from messenger.denc.codec import Decoder
from messenger.errors import DecodeError
from messenger.messages.osd_op_data import input_of
from messenger.messages.osd_operations import OpCode, OsdOp
from toolkit.embedded.osd.work import OpError, Work, handles

Method = Callable[[Work, Decoder], bytes | None]
"""Runs a method of a class with its input; returns its output. Raises OpError."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A method, and whether it may change the object."""

    method: Method
    writes: bool


_METHODS: dict[tuple[str, str], _Entry] = {}


def method(cls: str, name: str, *, writes: bool = False) -> Callable[[Method], Method]:
    """Register a function as a method of a class."""

    def register(function: Method) -> Method:
        _METHODS[cls, name] = _Entry(function, writes)
        return function

    return register


def writes(op: OsdOp) -> bool:
    """True if a CALL may change the object."""
    try:
        entry = _entry(input_of(op))
    except DecodeError:
        return False
    return entry is not None and entry.writes


def _entry(given: dict[str, Any]) -> _Entry | None:
    return _METHODS.get((given["class"], given["method"]))


@handles(OpCode.CALL)
def call(work: Work, _op: OsdOp, given: dict[str, Any]) -> bytes | None:
    """Call a method; EOPNOTSUPP if it is not supported."""
    entry = _entry(given)
    if entry is None:
        raise OpError(errno.EOPNOTSUPP)
    try:
        return entry.method(work, Decoder(given["input"]))
    except DecodeError:
        raise OpError(errno.EINVAL) from None
