"""House rules that no tool checks: imports between packages, lengths, words that the text avoids."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FUNCTION_LINES = 70
FILE_LINES = 600

TABLES: frozenset[str] = frozenset()
"""Files that may be longer, since they are data."""

SKINS = tuple(
    f"messenger/{name}" for name in ("transport/", "messenger.py", "owner.py", "inbox.py", "files.py", "form.py")
)
"""Where the core meets the world; everywhere else in messenger/ the world is an argument."""

WORLD = {
    "asyncio",
    "concurrent",
    "importlib",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "select",
    "selectors",
}
WORLD |= {"signal", "socket", "ssl", "subprocess", "threading", "time"}

SCAPY_USERS = ("toolkit/dissect/", "tests/toolkit/dissect/", "tests/fuzz/targets/scapy_layers.py")
"""Where scapy may be imported."""

UNFINISHED = re.compile(
    r"\b(TODO|FIXME|XXX|HACK|WIP|TBD)\b|(?i:not (yet implemented|implemented yet)|as requested)"
)
"""The text says what the project is, not what it was or is going to be."""

REFERENCE = re.compile(r'^\s*"""See :\w+:`[^`]+`\."""$', re.MULTILINE)
"""A docstring that says nothing itself: an override has the marker instead."""

JUDGES = re.compile("expect|require|refus|check")
"""Names of what asserts in another file."""

WRITTEN = ("*.py", "*.md", "*.toml", "*.yaml", "*.ipynb", "Makefile", ".ci/run")
HIDDEN = (".git", ".venv", ".ipynb_checkpoints", ".pytest_cache", "build")


parsed = cache(ast.parse)
"""The tree of a text; several rules look at it."""


def imports(text: str) -> Iterator[str]:
    """Every module a file imports, also inside functions."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def impure_core(path: str, text: str) -> list[str]:
    """The core takes time, randomness and bytes as arguments."""
    if not path.startswith("messenger/") or path.startswith(SKINS):
        return []
    return [f"imports {name}" for name in imports(text) if name.partition(".")[0] in WORLD]


def upward_import(path: str, text: str) -> list[str]:
    """The messenger knows nothing of the toolkit."""
    if not path.startswith("messenger/") or "toolkit" not in text:
        return []
    return [f"imports {name}" for name in imports(text) if name.partition(".")[0] == "toolkit"]


def stray_scapy(path: str, text: str) -> list[str]:
    """Only the dissector needs scapy installed, and the tests of its layers."""
    if path.startswith(SCAPY_USERS) or "scapy" not in text:
        return []
    return [f"imports {name}" for name in imports(text) if name.partition(".")[0] == "scapy"]


def long_function(_path: str, text: str) -> list[str]:
    """A function fits a screen."""
    return [
        f"{node.name} has {length} lines"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]


def long_file(path: str, text: str) -> list[str]:
    """A file is one idea."""
    length = text.count("\n")
    return [f"has {length} lines"] if length > FILE_LINES and path not in TABLES else []


def unfinished(_path: str, text: str) -> list[str]:
    """Return the marks of unfinished work."""
    return [f"says {match[0]!r}" for match in UNFINISHED.finditer(text)]


def empty_reference(_path: str, text: str) -> list[str]:
    """Return docstrings that only refer to another one; an override that adds nothing has ``@override`` alone."""
    return [f"has only {match[0].strip()}" for match in REFERENCE.finditer(text)]


def idle_test(path: str, text: str) -> list[str]:
    """Return tests without an assertion or a call of a function that asserts: in their file, or by its name."""
    if not path.startswith("tests/"):
        return []
    functions = [
        node for node in ast.walk(parsed(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    judging = {function.name for function in functions if _asserts(function)}
    return [
        f"{function.name} asserts nothing"
        for function in functions
        if function.name.startswith("test_")
        and not _asserts(function)
        and not any(name in judging or JUDGES.match(name) for name in _calls(function))
    ]


def _asserts(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(function)) or "raises" in _calls(function)


def _calls(function: ast.AST) -> set[str]:
    """The names of what it calls."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {getattr(each, "attr", getattr(each, "id", "")) for each in called}


PYTHON_RULES = (empty_reference, idle_test, impure_core, upward_import, stray_scapy, long_function, long_file)


@cache
def files(*patterns: str) -> list[tuple[str, str]]:
    """Path from the root, and text, of every file of the project with such a name."""
    paths = [path.relative_to(ROOT) for pattern in patterns for path in ROOT.rglob(pattern)]
    shown = [path for path in paths if not set(path.parts) & set(HIDDEN)]
    return [(path.as_posix(), (ROOT / path).read_text(encoding="utf-8")) for path in shown]


def offences(rule: Callable[[str, str], list[str]], *patterns: str) -> list[str]:
    return [f"{path} {offence}" for path, text in files(*patterns) for offence in rule(path, text)]


@pytest.mark.xdist_group("tidy")
@pytest.mark.parametrize("rule", PYTHON_RULES)
def test_every_python_file_follows_the_rule(rule: Callable[[str, str], list[str]]) -> None:
    assert offences(rule, "*.py") == []


def test_files_have_no_marks_of_unfinished_work() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert [offence for offence in offences(unfinished, *WRITTEN) if not offence.startswith(here)] == []


def test_rules_are_applied_to_all_files_of_the_project() -> None:
    seen = {path for path, _ in files("*.py")}
    assert {"messenger/errors.py", "toolkit/cli/main.py", "tests/test_tidy.py"} <= seen
    assert not any(path.startswith(HIDDEN) for path in seen)


BAD_SAMPLES = [
    (empty_reference, "toolkit/bad.py", 'def f():\n    """See :meth:`A.f`."""\n'),
    (idle_test, "tests/test_bad.py", "def helper():\n    pass\n\ndef test_nothing():\n    helper()\n"),
    (impure_core, "messenger/session/bad.py", "import time\n"),
    (impure_core, "messenger/bad.py", "def f():\n    from os.path import join\n"),
    (impure_core, "messenger/bad.py", "import asyncio.events as events\n"),
    (upward_import, "messenger/transport/bad.py", "from toolkit.faults import proxy\n"),
    (stray_scapy, "toolkit/report/bad.py", "from scapy.packet import Packet\n"),
    (stray_scapy, "messenger/bad.py", "import scapy\n"),
    (stray_scapy, "tests/toolkit/bad.py", "import scapy\n"),
    (long_function, "toolkit/bad.py", "async def f():\n" + "    pass\n" * FUNCTION_LINES),
    (long_file, "toolkit/bad.py", "pass\n" * (FILE_LINES + 1)),
    (unfinished, "README.md", "Decoding: TODO.\n"),
    (unfinished, "toolkit/bad.py", "raise ValueError('not implemented yet')\n"),
]

GOOD_SAMPLES = [
    (empty_reference, "toolkit/good.py", 'def f():\n    """See :meth:`A.f`, but never blocks."""\n'),
    (idle_test, "tests/test_good.py", "def held(x):\n    assert x\n\ndef test_it():\n    held(1)\n"),
    (idle_test, "tests/test_good.py", "def test_it(lab):\n    lab.expect_delivered('a', 'b', 1)\n"),
    (idle_test, "toolkit/good.py", "def test_drive():\n    pass\n"),
    (
        impure_core,
        "messenger/session/good.py",
        "import struct\nfrom messenger.session.timers import Timers\n",
    ),
    (impure_core, "messenger/transport/tcp.py", "import asyncio\nimport socket\n"),
    (impure_core, "messenger/messenger.py", "import time\n"),
    (impure_core, "toolkit/good.py", "import os\n"),
    (upward_import, "toolkit/good.py", "from toolkit.faults import proxy\n"),
    (stray_scapy, "toolkit/dissect/good.py", "import scapy\n"),
    (long_function, "toolkit/good.py", "def f():\n" + "    pass\n" * (FUNCTION_LINES - 1)),
    (long_file, "toolkit/good.py", "pass\n" * FILE_LINES),
    (unfinished, "README.md", "A session is yet to come; hackers welcome.\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD_SAMPLES)
def test_a_bad_sample_is_caught(rule: Callable[[str, str], list[str]], path: str, text: str) -> None:
    assert len(rule(path, text)) == 1


@pytest.mark.parametrize(("rule", "path", "text"), GOOD_SAMPLES)
def test_a_good_sample_passes(rule: Callable[[str, str], list[str]], path: str, text: str) -> None:
    assert rule(path, text) == []
