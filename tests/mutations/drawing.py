"""Candidates for mutants, by rule: what one small slip could make of each line of a module.

A rule takes a node of the syntax tree and yields what may stand in its place. Only code on one line is touched;
code that only prints or describes is left out, and so are types.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from tests.mutations.mutant import ROOT, Definition, Mutant, span

_SILENT = {"__repr__", "__str__", "printable", "label", "counters"}
"""Functions for the eyes of people."""
_TRACING = {"trace", "trace_frame", "trace_link", "trace_fault", "trace_held", "trace_throttle", "trace_decision"}
"""Calls that write history; only scenarios are judged by it."""

_FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
_OTHER_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "append": "appendleft", "popleft": "pop"}

_NOT_RUN = {"annotation", "returns", "decorator_list"}
"""Fields of the syntax tree that say nothing about what happens."""

Rule = Callable[[ast.AST, "Text"], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Text:
    """The source of a module."""

    whole: str
    lines: list[str]

    def of(self, node: ast.AST) -> str:
        """The code of a node."""
        return ast.get_source_segment(self.whole, node) or ""

    def operand(self, node: ast.AST) -> str:
        """The code of a node as an operand, in the parentheses that it needs."""
        loose = isinstance(node, ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Lambda | ast.Compare)
        return f"({self.of(node)})" if loose else self.of(node)


def _comparison(node: ast.AST, text: Text) -> Iterator[str]:
    """A comparison goes the other way at its border, or becomes its contrary."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = text.operand(node.left), text.operand(node.comparators[0])
        yield f"{left} {_FLIPPED[type(node.ops[0])]} {right}"


def _off_by_one(node: ast.AST, _text: Text) -> Iterator[str]:
    """A number is one more."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield str(node.value + 1)


def _other_default(node: ast.AST, _text: Text) -> Iterator[str]:
    """A truth value is the other one; a duration is half as long again."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield str(node.value * 1.5 or 1.0)


def _dropped(node: ast.AST, text: Text) -> Iterator[str]:
    """A call, an assignment to an attribute or item, a deletion or a raise is forgotten."""
    is_call = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _called(node.value) not in _TRACING
    )
    is_assigned = isinstance(node, ast.Assign | ast.AugAssign) and "." in text.of(node).partition("=")[0]
    if is_call or is_assigned or isinstance(node, ast.Delete | ast.Raise):
        yield "pass"


def _negated(node: ast.AST, text: Text) -> Iterator[str]:
    """A condition holds when it does not."""
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield text.of(node.test)


def _without_not(node: ast.AST, text: Text) -> Iterator[str]:
    """A not is forgotten."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield text.operand(node.operand)


def _other_word(node: ast.AST, text: Text) -> Iterator[str]:
    """And is or, or is and; or the last of the conditions is forgotten."""
    if isinstance(node, ast.BoolOp):
        values = [text.operand(value) for value in node.values]
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield word.join(values)
        yield (" and " if isinstance(node.op, ast.And) else " or ").join(values[:-1])


def _swapped(node: ast.AST, text: Text) -> Iterator[str]:
    """The branches of a choice are swapped."""
    if isinstance(node, ast.IfExp):
        yield f"{text.operand(node.orelse)} if {text.of(node.test)} else {text.operand(node.body)}"


def _arithmetic(node: ast.AST, text: Text) -> Iterator[str]:
    """Plus is minus, and so on."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not isinstance(node.left, ast.JoinedStr):
        yield f"{text.operand(node.left)} {_OPERATORS[type(node.op)]} {text.operand(node.right)}"


def _other_call(node: ast.AST, text: Text) -> Iterator[str]:
    """The smaller is the larger, the first the last."""
    if isinstance(node, ast.Call) and (other := _OTHER_CALLS.get(_called(node))):
        function = text.of(node.func)
        whole = text.of(node)
        yield f"{function[: -len(_called(node))]}{other}{whole[len(function) :]}"


def _other_end(node: ast.AST, _text: Text) -> Iterator[str]:
    """A loop goes on where it ends, or ends where it goes on."""
    if isinstance(node, ast.Break | ast.Continue):
        yield "continue" if isinstance(node, ast.Break) else "break"


RULES: dict[str, Rule] = {
    "comparison": _comparison,
    "off by one": _off_by_one,
    "other default": _other_default,
    "dropped": _dropped,
    "negated": _negated,
    "not forgotten": _without_not,
    "and, or": _other_word,
    "branches swapped": _swapped,
    "arithmetic": _arithmetic,
    "other call": _other_call,
    "other end": _other_end,
}


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def candidates(area: str, module: str) -> Iterator[Mutant]:
    """Every mutant of a module that a rule makes and whose code is unique in its function.

    Args:
        area: of the module.
        module: its name without the package, for example ``session.faults``.
    """
    whole = (ROOT / "messenger" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    text = Text(whole, whole.splitlines())
    for function, scope in _scopes(ast.parse(whole)):
        inside = whole if isinstance(scope, ast.Module) else whole[slice(*span(whole, scope))]
        for node in _code(scope, top=not function):
            for rule in RULES.values():
                if rule is _dropped and function.endswith("__init__"):
                    continue  # every test would stumble over what is not there
                for after in rule(node, text):
                    changed = _changed(rule, node, text)
                    found = _unique(changed, after, inside, text)
                    if found is not None:
                        yield Mutant(area, f"{module}:{function}", *found)


def _changed(rule: Rule, node: ast.AST, text: Text) -> ast.AST:
    return node.test if rule is _negated else node  # type: ignore[attr-defined]


def _unique(node: ast.AST, after: str, inside: str, text: Text) -> tuple[str, str] | None:
    """Before and after: the node's code, or its line if the code is not unique; None if neither is."""
    before = text.of(node)
    if not before or "\n" in before:
        return None
    if isinstance(node, ast.expr) and after == before:
        after = f"not ({before})"
    if inside.count(before) == 1:
        return before, after
    line = text.lines[node.lineno - 1]  # type: ignore[attr-defined]
    at = len(line.encode()[: node.col_offset].decode())  # type: ignore[attr-defined]
    whole = line.strip()
    if inside.count(whole) != 1 or "#" in whole:
        return None
    start = at - (len(line) - len(line.lstrip()))
    return whole, whole[:start] + after + whole[start + len(before) :]


def _scopes(tree: ast.Module) -> Iterator[tuple[str, ast.Module | Definition]]:
    """Every function and method by its name, and the code outside: that of the module and of classes."""
    yield "", tree
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield node.name, node
            methods = {
                inner.name: inner
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            yield from ((f"{node.name}.{name}", method) for name, method in methods.items())


def _code(scope: ast.AST, *, top: bool) -> Iterator[ast.AST]:
    """The nodes of a scope that count, without those of the functions and classes in a module or class."""
    name = getattr(scope, "name", "")
    if name in _SILENT:
        return
    waiting = [scope]
    while waiting:
        node = waiting.pop()
        if node is not scope:
            if isinstance(scope, ast.Module | ast.ClassDef) and isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            ):
                continue
            if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.arguments):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            yield node
        if isinstance(node, ast.Raise):
            continue  # the raise itself is drawn; within it only the error's text would change
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _called(node.value) in _TRACING:
            continue
        if top and isinstance(node, ast.Expr):
            continue
        waiting += [child for field, child in _children(node) if field not in _NOT_RUN]


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def rank(mutant: Mutant) -> str:
    """The order in which mutants are drawn: one that means nothing, and is the same every time."""
    return sha256(str(mutant).encode()).hexdigest()
