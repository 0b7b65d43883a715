"""Probes: which mutants a part of a suite reaches.

A probe is a call in front of the statement that a mutant changes. It notes the mutant's id, so a survey of a suite
costs little more than a run of it. For mutants of code outside functions, each function of the module has one.
A probe in each function of the messenger notes the module, so that a survey shows which modules a part uses.
"""

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mutations.importing import replace_sources
from tests.mutations.mutant import ROOT, TOP, Mutant

_NAME = "_mutant_is_reached_"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_reached: set[str] = set()


def install(mutants: Iterable[Mutant]) -> None:
    """Have this process import modules with probes from now on."""
    by_module: dict[str, list[Mutant]] = {module: [] for module in _modules()}
    for mutant in mutants:
        by_module[mutant.module].append(mutant)
    replace_sources({module: _probed(module, own) for module, own in by_module.items()})
    setattr(builtins, _NAME, _reached.add)


def taken() -> tuple[list[str], list[str]]:
    """The ids of the mutants that were reached since the last call, and the modules whose functions ran."""
    modules = {name for name in _reached if name.startswith(TOP)}
    ids = sorted(_reached - modules)
    _reached.clear()
    return ids, sorted(modules)


def path_of(module: str) -> Path:
    """The source file of a module."""
    return ROOT / (module.replace(".", "/") + ".py")


def _modules() -> Iterator[str]:
    """Every module of the messenger; packages have no code of their own."""
    for path in sorted((ROOT / TOP.rstrip(".")).rglob("*.py")):
        if not path.name.startswith("__"):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _probed(module: str, mutants: list[Mutant]) -> ast.Module:
    """The source of a module with a probe for each of its mutants."""
    tree = ast.parse(path_of(module).read_text(encoding="utf-8"))
    outside = [module, *(mutant.id for mutant in mutants if not mutant.is_called)]
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
            first = int(ast.get_docstring(node, clean=False) is not None and len(node.body) > 1)
            calls = _calls([*self._outside, *self._at_lines.get(node.lineno, ())], node.body[0])
            node.body[first:first] = calls
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
