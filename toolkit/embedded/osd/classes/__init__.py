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


METHODS: dict[tuple[str, str], _Entry] = {}
"""Methods by class and name."""


def method(cls: str, name: str, *, writes: bool = False) -> Callable[[Method], Method]:
    """Register a function as a method of a class."""

    def register(function: Method) -> Method:
        METHODS[cls, name] = _Entry(function, writes)
        return function

    return register


def writes(op: OsdOp) -> bool:
    """True if a CALL may change the object."""
    entry = _called(op)
    return entry is not None and entry.writes


def knows(op: OsdOp) -> bool:
    """True if the method of a CALL is supported."""
    return _called(op) is not None


def _called(op: OsdOp) -> _Entry | None:
    try:
        return _entry(input_of(op))
    except DecodeError:
        return None


def _entry(given: dict[str, Any]) -> _Entry | None:
    return METHODS.get((given["class"], given["method"]))


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
