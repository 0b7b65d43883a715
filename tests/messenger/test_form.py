"""The two forms of the hot modules: which one runs, and what the compiled one is declared to be."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from messenger import form

ROOT = Path(__file__).parents[2]
PLAIN = {"Rev0Cipher"}
"""Classes of compiled modules that stay classes of Python: those that only old peers need."""
LOOK = "import messenger.batch; from messenger.form import form; print(form())"


def look(tree: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tree}:{':'.join(filter(None, sys.path))}", **variables}
    return subprocess.run([sys.executable, "-P", "-c", LOOK], env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the messenger with files that nothing can load where the compiled modules would be."""
    top = tmp_path_factory.mktemp("forms")
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "compiled*.json")
    shutil.copytree(ROOT / "messenger", top / "messenger", ignore=left_out)
    for module in form.HOT_MODULES:
        (top / compiled(module)).write_bytes(b"no code")
    return top


def compiled(module: str) -> Path:
    return form.compiled_path(module).relative_to(ROOT)


def record(tree: Path, **changed: str) -> None:
    digests = {name: form.source_digest(name) for name in form.HOT_MODULES} | changed
    (tree / form.RECORD.relative_to(ROOT)).write_text(json.dumps(digests))


def test_compiled_form_is_preferred(tree: Path) -> None:
    record(tree)
    done = look(tree)
    assert done.returncode == 1
    assert f"ImportError: {tree / compiled('messenger.batch')}" in done.stderr


def test_the_python_form_runs_on_demand(tree: Path) -> None:
    record(tree)
    assert look(tree, MSGRLAB_PURE="1").stdout == "Python\n"
    assert look(tree, MSGRLAB_PURE="0").returncode == 1


def test_a_source_that_changed_keeps_all_of_the_python_form(tree: Path) -> None:
    record(tree, **{form.HOT_MODULES[-1]: "of another day"})
    done = look(tree)
    assert (done.stdout, done.stderr) == ("Python\n", "")


def test_a_module_that_is_missing_keeps_all_of_the_python_form(tree: Path) -> None:
    record(tree)
    last = tree / compiled(form.HOT_MODULES[-1])
    last.unlink()
    try:
        assert look(tree).stdout == "Python\n"
    finally:
        last.write_bytes(b"no code")


def test_declarations_count_as_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "_HOME", tmp_path)
    (tmp_path / "pool.py").write_text("")
    before = form.source_digest("messenger.pool")
    (tmp_path / "pool.pxd").write_text("cdef class BufferPool:\n    pass\n")
    declared = form.source_digest("messenger.pool")
    (tmp_path / "receive.pxd").write_text("cdef class ReceiveBuffer:\n    pass\n")  # may be named by others
    assert len({before, declared, form.source_digest("messenger.pool")}) == 3


def slots(module: str) -> Iterator[tuple[str, set[str]]]:
    for node in ast.parse(form.source_path(module).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__slots__":
                    yield node.name, set(ast.literal_eval(line.value))


@pytest.mark.parametrize("module", form.HOT_MODULES)
def test_declared_classes_have_the_attributes_of_their_sources(module: str) -> None:
    path = form.source_path(module).with_suffix(".pxd")
    text = path.read_text("utf-8") if path.exists() else ""
    declared = {
        name: set(re.findall(r"^    cdef public \w+ (\w+)$", body, re.MULTILINE))
        for name, body in re.findall(r"^cdef class (\w+)(?:\(\w+\))?:\n((?:    .*\n)+)", text, re.MULTILINE)
    }
    assert declared == {name: attributes for name, attributes in slots(module) if name not in PLAIN}


def test_no_declarations_lie_beside_modules_that_are_not_compiled() -> None:
    declared = {path.relative_to(ROOT) for path in ROOT.glob("messenger/**/*.pxd")}
    assert declared <= {form.source_path(name).with_suffix(".pxd").relative_to(ROOT) for name in form.HOT_MODULES}


def test_missing_compiler_is_an_error_of_one_line() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "compile"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path)), "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith("make compile: ")
    assert (done.returncode, done.stdout) == (2, "")
