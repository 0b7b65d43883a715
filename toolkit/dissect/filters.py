"""Filters over decoded frames: ``tag == "MESSAGE" and message.name == "osd_op" and message.seq > 5``.

The language is a subset of Python's expressions: names of the record that ``msgrlab decode --format json`` prints,
literals, comparisons, ``and``/``or``/``not``, and a few methods of texts. An expression is compiled to closures;
it is never evaluated by the interpreter, and no part of it can create a value much larger than those in the frame.

A missing value (``message.seq`` of an ACK, ``fields.cookie`` of a frame without one) is None, as is the result of
an operation that does not apply (``lower()`` of a number). None is neither less nor greater than any value.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from messenger.compat import override
from messenger.v1.wire import Piece
from messenger.v2.wire import Tag
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import GAP, UNKNOWN, DecodedFrame, MessageInfo, Verdict, utc
from toolkit.scanner import TextError, did_you_mean, require_printable

Predicate = Callable[[DecodedFrame], bool]
"""Returns True if a frame matches."""

_Value = Callable[[Any], object]
"""Returns the value of an expression for a frame or a row."""

_DEEPEST = 50

_SUBJECT = ("object", "pool", "pg", "snap", "op", "result", "flags")


def _of_subject(name: str) -> _Value:
    """Return a reader of one of the names in a message's subject."""

    def read(frame: DecodedFrame) -> object:
        from toolkit.dissect.payloads import subject_of  # noqa: PLC0415 - for those filters alone

        return getattr(subject_of(frame), name)

    return read


NAMES: Mapping[str, _Value] = MappingProxyType(
    {
        "frame": operator.attrgetter("frame"),
        "time": lambda frame: frame.time_ns / 1_000_000_000,
        "time_ns": operator.attrgetter("time_ns"),
        "utc": lambda frame: utc(frame.time_ns),
        "stream": operator.attrgetter("stream.index"),
        "src": operator.attrgetter("src"),
        "dst": operator.attrgetter("dst"),
        "protocol": operator.attrgetter("protocol"),
        "mode": operator.attrgetter("mode"),
        "tag": operator.attrgetter("tag"),
        "offset": operator.attrgetter("offset"),
        "length": operator.attrgetter("length"),
        "crc": operator.attrgetter("crc.value"),
        "auth": operator.attrgetter("auth.value"),
        "error": operator.attrgetter("error"),
        "message": operator.attrgetter("message"),
        "fields": operator.attrgetter("fields"),
        "packet": operator.attrgetter("packet"),
        "direction": operator.attrgetter("direction.value"),
        "compressed": operator.attrgetter("compressed"),
        **{name: _of_subject(name) for name in _SUBJECT},
    }
)
"""The names in an expression: the keys of a frame's JSON record, and further ones."""

_MESSAGE_NAMES = MessageInfo._fields

_WORDS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "crc": tuple(Verdict),
        "auth": tuple(Verdict),
        "mode": ("crc", "secure"),
        "direction": tuple(Direction),
        "protocol": ("v1", "v2.0", "v2.1", ""),
    }
)
"""Names with a few possible values: comparing one with another value must be a mistake."""

_TAGS = frozenset({*Tag.__members__, *Piece, "BANNER", UNKNOWN, GAP})
"""Known tags; an unknown tag is its number."""

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,  # `error is None` as in Python; with other values users mean equality, not identity
    ast.IsNot: operator.ne,
    ast.Lt: lambda left, right: _ordered(operator.lt, left, right),
    ast.LtE: lambda left, right: _ordered(operator.le, left, right),
    ast.Gt: lambda left, right: _ordered(operator.gt, left, right),
    ast.GtE: lambda left, right: _ordered(operator.ge, left, right),
    ast.In: lambda left, right: _contains(right, left),
    ast.NotIn: lambda left, right: not _contains(right, left),
}

_ARITHMETIC: Mapping[type[ast.operator], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.BitAnd: operator.and_,
}
"""Enough for differences and feature bits; values can hardly grow by these."""

_METHODS: Mapping[str, tuple[int, Callable[..., object]]] = {
    "startswith": (1, str.startswith),
    "endswith": (1, str.endswith),
    "lower": (0, str.lower),
    "upper": (0, str.upper),
}
"""Methods of texts, each with its number of arguments."""

_ACCEPTED = (
    "accepted are names, literals, == != < <= > >= in, and/or/not, + - &, and the methods of texts "
    + ", ".join(f"{name}()" for name in _METHODS)
)


class Filter:
    """The predicate of an expression. Calling it never raises, whatever the frame.

    Args:
        value: value of the expression for a frame.
        asked: parts of ``fields`` in the expression, True for those that a frame had; ``value`` updates it.
    """

    __slots__ = ("_asked", "_value")

    def __init__(self, value: _Value, asked: Mapping[str, bool]) -> None:
        self._value = value
        self._asked = asked

    def __call__(self, frame: DecodedFrame) -> bool:
        """True if the frame matches."""
        return bool(self._value(frame))

    @property
    def absent(self) -> list[str]:
        """Parts of ``fields`` in the expression that no frame had, without their own parts."""
        missing = [part for part, found in self._asked.items() if not found]
        inside = tuple(f"{part}{sign}" for part in missing for sign in ".[")
        return [part for part in missing if not part.startswith(inside)]


def compile_filter(text: str) -> Filter:
    """Compile an expression.

    Args:
        text: the expression.

    Raises:
        TextError: the expression is not in this language.
    """
    text = _one_line(text)
    reader = _FrameReader(text, NAMES)
    return Filter(reader.read(_parse(text), 0), reader.asked)


def _one_line(text: str) -> str:
    text = " ".join(text.splitlines()).strip()
    if not text:
        raise TextError("filter", 1, f"it is empty; {_ACCEPTED}")
    require_printable("filter", text)
    return text


def compile_row_filter(text: str, names: Sequence[str]) -> Callable[[Mapping[str, object]], bool]:
    """Compile an expression over rows, such as ``latency_ms > 100 and object == "hello"``.

    Args:
        text: the expression.
        names: the columns of every row.

    Raises:
        TextError: as :func:`compile_filter`; also if the expression is a literal alone.
    """
    text = _one_line(text)
    tree = _parse(text)
    if isinstance(tree, ast.Constant):
        raise TextError("filter", 1, f"{text} alone asks nothing; compare it, like 'tid == 9'; {_names_of(names)}")
    value = _RowReader(text, {name: operator.itemgetter(name) for name in names}).read(tree, 0)
    return lambda row: bool(value(row))


def _names_of(names: Iterable[str]) -> str:
    return f"there are {', '.join(names)}"


def _parse(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings(action="ignore"):  # an odd escape in a text must not print a warning
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        ended = error.lineno != 1 or not error.offset or error.offset > len(text)
        column, what = (len(text) + 1, "it ends too early") if ended else (error.offset or 1, error.msg)
        raise TextError("filter", column, f"{what}; {_ACCEPTED}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise TextError("filter", 1, f"Python's parser refuses it ({error or type(error).__name__})") from None


class _RowReader:
    """Compiles a syntax tree to closures over a row, a mapping of names to values."""

    def __init__(self, text: str, names: Mapping[str, _Value]) -> None:
        self._text = text.encode()
        self._names = names
        self.asked: dict[str, bool] = {}
        """As for :class:`Filter`."""

    def _error(self, node: ast.AST, what: str) -> TextError:
        """Return an error with the column in characters; the parser counts bytes."""
        column = len(self._text[: getattr(node, "col_offset", 0)].decode(errors="ignore")) + 1
        return TextError("filter", column, what)

    def read(self, node: ast.expr, depth: int) -> _Value:
        """Return the closure of an expression.

        Raises:
            TextError: the expression is not in this language.
        """
        if depth > _DEEPEST:
            raise self._error(node, f"more than {_DEEPEST} levels deep")
        match node:
            case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
                return lambda _frame: value
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node, depth + 1)
            case ast.Subscript():
                return self._part(node, self.read(node.value, depth + 1), self.read(node.slice, depth + 1))
            case ast.BoolOp():
                return _joined(isinstance(node.op, ast.And), [self.read(part, depth + 1) for part in node.values])
            case ast.UnaryOp(op=ast.Not()):
                part = self.read(node.operand, depth + 1)
                return lambda frame: not part(frame)
            case ast.UnaryOp(op=ast.USub()):
                part = self.read(node.operand, depth + 1)
                return lambda frame: _calculated(operator.sub, 0, part(frame))
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                how = _ARITHMETIC[type(node.op)]
                left, right = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
                return lambda frame: _calculated(how, left(frame), right(frame))
            case ast.Compare():
                return self._comparison(node, depth + 1)
            case ast.Call():
                return self._call(node, depth + 1)
            case ast.Tuple() | ast.List() | ast.Set() if depth:
                parts = [self.read(part, depth + 1) for part in node.elts]
                return lambda frame: tuple(part(frame) for part in parts)
        if isinstance(node, ast.Tuple):
            raise self._error(node, "values with commas between need brackets around them")
        raise self._error(node, f"{_kind(node)} cannot be used; {_ACCEPTED}")

    def _name(self, node: ast.Name) -> _Value:
        if node.id in self._names:
            return self._names[node.id]
        raise self._error(node, f"no name {node.id!r}{self._hint(node.id)}; {_names_of(self._names)}")

    def _hint(self, name: str) -> str:
        return f" (a text takes quotes: {name!r})"

    def _attribute(self, node: ast.Attribute, depth: int) -> _Value:  # noqa: ARG002 - frames have parts
        raise self._error(node, f"no name has parts, so .{node.attr} leads nowhere")

    def _part(self, node: ast.Attribute | ast.Subscript, whole: _Value, key: _Value) -> _Value:
        """Return a closure for a part of ``fields``; :attr:`asked` records whether a frame had the part."""
        asked, name = self.asked, ast.unparse(node)
        asked[name] = False

        def part(frame: object) -> object:
            value = _item(whole(frame), key(frame))
            if value is not None:
                asked[name] = True
            return value

        return part

    def _comparison(self, node: ast.Compare, depth: int) -> _Value:
        values = [self.read(part, depth) for part in (node.left, *node.comparators)]
        hows = [_COMPARISONS[type(op)] for op in node.ops]
        if isinstance(node.ops[0], ast.Eq | ast.NotEq):
            self._check_word(node.left, node.comparators[0])
        if len(hows) == 1:
            (left, right), how = values, hows[0]
            return lambda frame: how(left(frame), right(frame))

        def chain(frame: object) -> bool:
            found = [value(frame) for value in values]
            return all(how(left, right) for how, left, right in zip(hows, found, found[1:], strict=False))

        return chain

    def _check_word(self, name: ast.expr, value: ast.expr) -> None:
        """Raise TextError if a name is compared with a value that it never has."""

    def _call(self, node: ast.Call, depth: int) -> _Value:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _METHODS:
            raise self._error(node, f"this cannot be called; {_ACCEPTED}")
        name = node.func.attr
        wanted, method = _METHODS[name]
        if len(node.args) != wanted or node.keywords:
            raise self._error(node, f"{name}() takes {wanted or 'no'} argument{'' if wanted == 1 else 's'}")
        subject = self.read(node.func.value, depth)
        arguments = [self.read(argument, depth) for argument in node.args]

        def call(frame: object) -> object:
            value, given = subject(frame), [argument(frame) for argument in arguments]
            return method(value, *given) if isinstance(value, str) and all(map(_texts, given)) else None

        return call


class _FrameReader(_RowReader):
    """Compiles a syntax tree to closures over a frame."""

    @override
    def _hint(self, name: str) -> str:
        return f" (of a message, so message.{name})" if name in _MESSAGE_NAMES else super()._hint(name)

    @override
    def _attribute(self, node: ast.Attribute, depth: int) -> _Value:
        name = node.attr
        match node.value:
            case ast.Name(id="message"):
                if name not in _MESSAGE_NAMES:
                    raise self._error(node, f"a message has no {name!r}; it has {', '.join(_MESSAGE_NAMES)}")
                of_message = operator.attrgetter(name)
                return lambda frame: None if frame.message is None else of_message(frame.message)
            case ast.Name(id="fields") | ast.Attribute() | ast.Subscript():
                return self._part(node, self.read(node.value, depth), lambda _frame: name)
        raise self._error(node, f"only message and fields have parts, so .{name} leads nowhere")

    @override
    def _check_word(self, name: ast.expr, value: ast.expr) -> None:
        match name, value:
            case ast.Name(id=known), ast.Constant(value=word) if known in _WORDS and word not in _WORDS[known]:
                words = ", ".join(repr(str(word)) for word in _WORDS[known])
                raise self._error(value, f"{known} is never {word!r}; it is one of {words}")
            case ast.Name(id="tag"), ast.Constant(value=str(word)) if word not in _TAGS and not word.isdecimal():
                hint = did_you_mean(repr(word.upper()), map("'{}'".format, _TAGS))
                raise self._error(value, f"tag is never {word!r}{hint}")


def _joined(every: bool, parts: Sequence[_Value]) -> _Value:  # noqa: FBT001 - which of the two it is
    if every:
        return lambda frame: all(part(frame) for part in parts)
    return lambda frame: any(part(frame) for part in parts)


def _item(whole: object, key: object) -> object:
    """Return the element of a mapping or list; None if it is absent, or ``whole`` is neither."""
    if isinstance(whole, Mapping):
        return whole.get(key) if isinstance(key, str | int) else None
    if isinstance(whole, list | tuple) and isinstance(key, int) and -len(whole) <= key < len(whole):
        return whole[key]
    return None


def _contains(whole: object, part: object) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, Mapping):
        return isinstance(part, str | int) and part in whole
    return isinstance(whole, list | tuple) and part in whole


def _ordered(how: Callable[..., bool], left: object, right: object) -> bool:
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return (numbers or (isinstance(left, str) and isinstance(right, str))) and how(left, right)


def _calculated(how: Callable[..., float], left: object, right: object) -> float | None:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    try:
        return how(left, right)
    except (TypeError, OverflowError):  # & of a fraction, a fraction and a number of hundreds of digits
        return None


def _texts(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(part, str) for part in value))


def _kind(node: ast.expr) -> str:
    """The construct in a word or two, for users without knowledge of Python's grammar."""
    known: dict[type[ast.expr], str] = {
        ast.BinOp: "this operator",
        ast.Constant: "a literal of this kind",
        ast.Dict: "a mapping",
        ast.IfExp: "if/else",
        ast.JoinedStr: "a formatted text",
        ast.Lambda: "a function",
        ast.NamedExpr: "an assignment",
        ast.Slice: "a slice",
        ast.Starred: "a star",
        ast.UnaryOp: "this operator",
    }
    return known.get(type(node), "this")
