"""Imports go down: each package imports only from the floors below its own, or from neighbours that its row names.

docs/floors.md shows the same tables to readers. Imports inside functions and for type checkers count as well.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "floors.md"


@dataclass(frozen=True, slots=True)
class Row:
    """A package, or a module beside the packages, and the floor that it lies on."""

    floor: str
    name: str
    """Below ``toolkit`` or ``messenger``; empty for the package itself (its ``__init__``)."""
    beside: tuple[str, ...] = ()
    """Packages of the same floor that it may import; rows further down in the table."""


TOOLKIT = (
    Row("entry", "", ()),
    Row("entry", "cli", ("notebook", "new_project")),
    Row("entry", "notebook"),
    Row("entry", "new_project"),
    Row("entry", "pytest_plugin", ()),
    Row("jobs", "replay", ("scenarios",)),
    Row("jobs", "scenarios"),
    Row("jobs", "simulation"),
    Row("jobs", "exploration"),
    Row("jobs", "bench"),
    Row("jobs", "matrix"),
    Row("jobs", "hunt"),
    Row("jobs", "conformance", ("probe",)),
    Row("jobs", "probe"),
    Row("jobs", "doctor"),
    Row("world", "lab", ("cluster",)),
    Row("world", "cluster"),
    Row("nodes", "embedded", ("rados", "node")),
    Row("nodes", "cephfs", ("rados",)),
    Row("nodes", "manager", ("rados",)),
    Row("nodes", "rados", ("node",)),
    Row("nodes", "node"),
    Row("subject", "faults", ("dissect", "checks")),
    Row("subject", "dissect", ("report", "checks")),
    Row("subject", "report", ("checks",)),
    Row("subject", "checks"),
    Row("ground", "capture", ("network",)),
    Row("ground", "network", ("machine",)),
    Row("ground", "machine"),
    Row("base", "form"),
    Row("base", "tables", ("extras",)),
    Row("base", "extras", ("errors",)),
    Row("base", "scanner"),
    Row("base", "errors"),
)
"""From the top down."""

MESSENGER = (
    *(Row("facade", name) for name in ("", "messenger", "owner", "arguments", "inbox", "mon_login")),
    Row("transports", "transport"),
    *(Row("driver", name) for name in ("driver", "connection", "dispatch", "dispatch_queue", "prioritized")),
    *(Row("endpoint", name) for name in ("endpoint", "core", "shards", "addressing", "loopback")),
    *(Row("endpoint", name) for name in ("keepalive", "half_open", "closing")),
    *(Row("links", name) for name in ("v2", "v1", "batch", "home", "link", "host", "calls", "outputs")),
    *(Row("links", name) for name in ("interception", "inject", "sequence_rules", "receive", "arrivals")),
    *(Row("links", name) for name in ("held_reader", "gate", "evidence", "deadlines", "perf")),
    Row("session", "session"),
    Row("session", "local_entity"),
    Row("encodings", "config"),
    Row("encodings", "rules"),
    Row("encodings", "options"),
    Row("encodings", "messages"),
    Row("encodings", "cephx"),
    Row("encodings", "keylog"),
    Row("encodings", "algorithms"),
    Row("encodings", "crc"),
    Row("denc", "protocols"),
    Row("denc", "pool"),
    Row("denc", "denc"),
    *(Row("ground", name) for name in ("errors", "files", "form", "randomness", "compat")),
)
"""From the top down; packages of one floor may import each other."""


def imported(module: str, source: str | ast.AST, known: frozenset[str], *, package: bool = False) -> Iterator[str]:
    """The modules that a module imports, wherever it does.

    Args:
        module: its dotted name.
        source: its text, or what counts of it.
        known: every module there is: ``from a import b`` is an import of ``a.b`` if that is one.
        package: whether it is the ``__init__`` of a package.
    """
    for node in ast.walk(ast.parse(source) if isinstance(source, str) else source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: None if package else -1]
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            parent = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                inner = f"{parent}.{alias.name}"
                yield inner if inner in known else parent


def part(module: str) -> str:
    """The package or module below the top that a module belongs to: ``lab`` of ``toolkit.lab.sim.clock``."""
    return (*module.split("."), "")[1]


def sources(top: str) -> dict[str, tuple[str, bool]]:
    """Text of every module of a package by its dotted name, and whether it is a package's ``__init__``."""
    found = {}
    for path in sorted((ROOT / top).rglob("*.py*")):
        if path.suffix in {".py", ".pyi"}:
            names = path.relative_to(ROOT).with_suffix("").parts
            inner = names[-1] == "__init__"
            name = ".".join(names[: -1 if inner else None])
            before, _ = found.get(name, ("", inner))  # a stub lists what its package loads when used
            found[name] = (f"{before}\n{path.read_text(encoding='utf-8')}", inner)
    return found


def crossings(top: str) -> set[tuple[str, str]]:
    """Every import from one part of a package into another: the module, and what it imports."""
    modules = sources(top)
    known = frozenset(modules)
    return {
        (module, target)
        for module, (text, inner) in modules.items()
        for target in imported(module, text, known, package=inner)
        if target.partition(".")[0] == top and part(target) != part(module)
    }


def wrong(rows: tuple[Row, ...], module: str, target: str, *, floors_are_open: bool = False) -> bool:
    """True if an import goes upward, or to a neighbour that the row does not name."""
    by_name = {row.name: row for row in rows}
    floors = list(dict.fromkeys(row.floor for row in rows))
    here, there = by_name[part(module)], by_name[part(target)]
    if here.floor == there.floor:
        return not (floors_are_open or there.name in here.beside)
    return floors.index(here.floor) > floors.index(there.floor)


@pytest.mark.parametrize(("top", "rows"), [("toolkit", TOOLKIT), ("messenger", MESSENGER)])
def test_every_package_has_one_row(top: str, rows: tuple[Row, ...]) -> None:
    names = [row.name for row in rows]
    assert sorted(names) == sorted({part(module) for module in sources(top)}), f"give it a floor in {__file__}"


def test_packages_import_only_later_rows_of_their_own_floor() -> None:
    """So rows of one floor make no cycle either."""
    names = [row.name for row in TOOLKIT]
    floors = {row.name: row.floor for row in TOOLKIT}
    for row in TOOLKIT:
        for other in row.beside:
            assert floors[other] == row.floor
            assert names.index(other) > names.index(row.name)


def test_the_toolkit_imports_downwards() -> None:
    assert sorted(each for each in crossings("toolkit") if wrong(TOOLKIT, *each)) == []


def test_the_messenger_imports_downwards() -> None:
    assert sorted(each for each in crossings("messenger") if wrong(MESSENGER, *each, floors_are_open=True)) == []


class Loaded(ast.NodeTransformer):
    """Keeps what is executed when a module is imported: no functions, nothing for type checkers alone."""

    def visit_FunctionDef(self, _node: ast.FunctionDef) -> ast.AST:
        return ast.Pass()

    def visit_AsyncFunctionDef(self, _node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.Pass()

    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.Pass() if ast.unparse(node.test) == "TYPE_CHECKING" else node


def loaded(text: str) -> ast.AST:
    """Return the parts of a module's source that are executed when it is imported."""
    return Loaded().visit(ast.parse(text))  # type: ignore[no-any-return]


@pytest.mark.parametrize("top", ["toolkit", "messenger"])
def test_modules_have_no_import_cycle(top: str) -> None:
    """A circle of imports works only from some of its modules."""
    modules = sources(top)
    known = frozenset(modules)
    graph = {
        module: set(imported(module, loaded(text), known, package=inner)) & known - {module, top}
        for module, (text, inner) in modules.items()
        if module != top  # its names are loaded when they are first used
    }
    order = list(TopologicalSorter(graph).static_order())  # CycleError names the circle
    assert set(order) == set(graph)


def test_imports_in_functions_and_under_type_checking_do_not_count() -> None:
    text = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    import c\nclass D:\n    import d"
    assert list(imported("m", loaded(text), KNOWN)) == ["a", "d"]


def test_the_page_has_the_same_rows() -> None:
    matches = re.findall(r"^\| (\w+) \| `(\w+)/?([\w.]*?)/?`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for top, rows in (("toolkit", TOOLKIT), ("messenger", MESSENGER)):
        shown = [(floor, name.removesuffix(".py")) for floor, package, name in matches if package == top]
        assert shown == [(row.floor, row.name) for row in rows]


KNOWN = frozenset({"toolkit", "toolkit.machine", "toolkit.machine.loops", "toolkit.cluster.spec"})


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("import toolkit.machine.loops", "toolkit.machine.loops"),
        ("from toolkit.machine import loops", "toolkit.machine.loops"),
        ("from toolkit.machine.loops import LoopThread", "toolkit.machine.loops"),
        ("def f():\n    from toolkit.machine.loops import LoopThread", "toolkit.machine.loops"),
        ("if TYPE_CHECKING:\n    from toolkit import machine", "toolkit.machine"),
        ("from toolkit import run", "toolkit"),
        ("from .spec import reading", "toolkit.cluster.spec"),
        ("from ..machine import loops", "toolkit.machine.loops"),
    ],
)
def test_imports_are_seen(text: str, target: str) -> None:
    assert list(imported("toolkit.cluster.cluster", text, KNOWN)) == [target]


def test_a_package_imports_from_itself() -> None:
    assert list(imported("toolkit.cluster", "from .spec import reading", KNOWN, package=True)) == [
        "toolkit.cluster.spec"
    ]


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("toolkit.machine.docker_engine", "toolkit.doctor.catalogue"),
        ("toolkit.capture.recorder", "toolkit.dissect.decode"),
        ("toolkit.checks.live", "toolkit.report.sequence"),
        ("toolkit.cluster.cluster", "toolkit.lab.lab"),
        ("toolkit.simulation.lives", "toolkit.scenarios.runner"),
        ("toolkit.machine.interpreters", "toolkit"),
    ],
)
def test_an_import_from_above_is_caught(module: str, target: str) -> None:
    assert wrong(TOOLKIT, module, target)


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("toolkit.lab.real.real_lab", "toolkit.cluster.process"),
        ("toolkit.scenarios.runner", "toolkit.report.html"),
        ("toolkit", "toolkit.scenarios.catalogue"),
    ],
)
def test_an_import_from_below_passes(module: str, target: str) -> None:
    assert not wrong(TOOLKIT, module, target)
