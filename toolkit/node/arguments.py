"""Arguments of commands to a node's program, checked against the method that carries out the command."""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Protocol, get_args, get_type_hints

from messenger.errors import LocalError

_WANTED: dict[type, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number, 0 or more", lambda value: _is_whole(value) and value >= 0),
    float: ("a number", lambda value: _is_whole(value) or (isinstance(value, float) and math.isfinite(value))),
}


class Program(Protocol):
    """A program with commands; the methods in ``VERBS`` carry them out."""

    VERBS: ClassVar[tuple[str, ...]]


def check_arguments(program: type[Program], verb: str, args: Mapping[str, Any]) -> None:
    """Check the arguments of a command.

    Args:
        program: class of the node's program.
        verb: the command.
        args: its arguments by name.

    Raises:
        LocalError: there is no such command, an argument is missing or unknown, or a value is of a wrong type.
    """
    by_name(program, verb, (), args)
    hints = _hints(program, verb)
    for name, value in args.items():
        kind = hints.get(name)
        if isinstance(kind, UnionType):  # X | None
            kind = None if value is None else get_args(kind)[0]
        if kind in _WANTED:
            wanted, fits = _WANTED[kind]
            if not fits(value):
                raise LocalError(f"{verb}: {name} = {value!r}: give {wanted}")


def by_name(program: type[Program], verb: str, words: Sequence[Any], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return positional arguments and those by name, all by name; raises LocalError as :func:`check_arguments`."""
    _, *names = (parameters := _signature(program, verb).parameters)
    try:
        bound = _signature(program, verb).bind(None, *words, **args)
    except TypeError as error:
        raise LocalError(f"{verb}: {error}; it takes {', '.join(names) or 'nothing'}") from None
    found: dict[str, Any] = {}
    for name in names:
        if name in bound.arguments:
            value = bound.arguments[name]
            is_rest = parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            found |= value if is_rest else {name: value}
    return found


def from_words(program: type[Program], verb: str, words: Sequence[str], args: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a command that was written on a command line, all by name.

    ::

        from_words(NodeApp, "send", ["b"], {"count": "3"}) == {"peer": "b", "count": 3}

    Raises:
        LocalError: as :func:`check_arguments`, except that values are not checked.
    """
    hints = _hints(program, verb)
    named = by_name(program, verb, words, args)
    return {name: text if hints.get(name) is str else from_text(text) for name, text in named.items()}


def from_text(text: str) -> Any:  # noqa: ANN401 - as JSON
    """Return the JSON value of a text, or the text if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _method(program: type[Program], verb: str) -> Callable[..., Any]:
    if verb not in program.VERBS:
        raise LocalError(f"no verb {verb!r}; there are {', '.join(sorted(program.VERBS))}")
    method: Callable[..., Any] = getattr(program, verb)
    return method


@cache
def _signature(program: type[Program], verb: str) -> inspect.Signature:
    return inspect.signature(_method(program, verb))


@cache
def _hints(program: type[Program], verb: str) -> dict[str, Any]:
    return get_type_hints(_method(program, verb))
