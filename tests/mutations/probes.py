"""Probes: which mutants a part of a suite reaches.

A probe is a call in front of the statement that a mutant changes. It notes the mutant's id, so a survey of a suite
costs little more than a run of it. For mutants of code outside functions, each function of the module has one.
"""

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable

from tests.mutations.importing import replace_sources
from tests.mutations.mutant import Mutant

_NAME = "_mutant_is_reached_"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_reached: set[str] = set()


def install(mutants: Iterable[Mutant]) -> None:
    """Have this process import modules with probes from now on."""
    by_module: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_module[mutant.module].append(mutant)
    replace_sources({module: _probed(own) for module, own in by_module.items()})
    setattr(builtins, _NAME, _reached.add)


def taken() -> list[str]:
    """The ids of mutants that were reached since the last time."""
    ids = sorted(_reached)
    _reached.clear()
    return ids


def _probed(mutants: list[Mutant]) -> ast.Module:
    """The source of the module of these mutants with a probe for each."""
    tree = ast.parse(mutants[0].path.read_text(encoding="utf-8"))
    outside = [mutant.id for mutant in mutants if not mutant.is_called]
    at_lines: dict[int, list[str]] = defaultdict(list)
    for mutant in mutants:
        if mutant.is_called:
            at_lines[min(mutant.statement_lines())].append(mutant.id)
    _Prober(at_lines, outside).visit(tree)
    return ast.fix_missing_locations(tree)


class _Prober(ast.NodeTransformer):
    def __init__(self, at_lines: dict[int, list[str]], outside: list[str]) -> None:
        self._at_lines = at_lines
        self._outside = outside

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not isinstance(node, ast.stmt):
            return node
        if isinstance(node, _FUNCTIONS):
            node.body[:0] = _calls([*self._outside, *self._at_lines.get(node.lineno, ())], node.body[0])
            return node
        calls = _calls(self._at_lines.get(node.lineno, ()), node)
        return [*calls, node] if calls else node


def _calls(ids: Iterable[str], place: ast.stmt) -> list[ast.stmt]:
    return [
        ast.copy_location(
            ast.Expr(ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(name)], [])),
            place,
        )
        for name in ids
    ]
