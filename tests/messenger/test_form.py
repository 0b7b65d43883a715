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

from messenger.form import MESSENGER, HotModules
from toolkit.form import TOOLKIT

ROOT = Path(__file__).parents[2]
PLAIN = {"Rev0Cipher"}
"""Classes of compiled modules that stay classes of Python: those that only old peers need."""
LOOK = """
from importlib import import_module
from messenger.form import MESSENGER
from toolkit.form import TOOLKIT
for package in MESSENGER, TOOLKIT:
    for name in package.names:
        assert import_module(name).__file__.endswith(".py"), name
print(MESSENGER.form, TOOLKIT.form)
"""
FIND = """
import sys
import toolkit
def found(module, folder):
    specs = (finder.find_spec(module, [folder]) for finder in sys.meta_path)
    return next(filter(None, specs)).origin
"""
MODULES = [(package, module) for package in (MESSENGER, TOOLKIT) for module in package.names]


def look(tree: Path, code: str = LOOK, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tree}:{':'.join(filter(None, sys.path))}", **variables}
    return subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of both packages with files that nothing can load where the compiled modules would be."""
    top = tmp_path_factory.mktemp("forms")
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "compiled*.json")
    for package in MESSENGER, TOOLKIT:
        shutil.copytree(package.home, top / package.home.name, ignore=left_out)
    for package, module in MODULES:
        (top / compiled(package, module)).write_bytes(b"no code")
    return top


def compiled(package: HotModules, module: str) -> Path:
    return package.compiled_path(module).relative_to(ROOT)


def record(tree: Path, **changed: str) -> None:
    for package in MESSENGER, TOOLKIT:
        digests = {name: package.source_digest(name) for name in package.names}
        digests |= {name: digest for name, digest in changed.items() if name in digests}
        (tree / package.record.relative_to(ROOT)).write_text(json.dumps(digests))


@pytest.mark.parametrize("package", [MESSENGER, TOOLKIT])
def test_compiled_form_is_preferred(tree: Path, package: HotModules) -> None:
    record(tree)
    (module, folder) = package.names[-1], (tree / compiled(package, package.names[-1])).parent
    done = look(tree, f"{FIND}\nprint(found({module!r}, {str(folder)!r}))")
    assert (done.stdout, done.stderr) == (f"{tree / compiled(package, module)}\n", "")
    assert look(tree).returncode == 1, "there is no code to load"


def test_the_python_form_runs_on_demand(tree: Path) -> None:
    record(tree)
    assert look(tree, MSGRLAB_PURE="1").stdout == "Python Python\n"
    assert look(tree, MSGRLAB_PURE="0").returncode == 1


@pytest.mark.parametrize("module", [MESSENGER.names[-1], TOOLKIT.names[-1]])
def test_a_source_that_changed_keeps_all_of_its_package_in_the_python_form(tree: Path, module: str) -> None:
    record(tree, **{module: "of another day"})
    done = look(
        tree,
        "from messenger.form import MESSENGER; from toolkit.form import TOOLKIT; import toolkit\n"
        "print(MESSENGER.form, TOOLKIT.form)",
    )
    forms = "Python Python\n" if module in MESSENGER.names else "compiled Python\n"
    assert (done.stdout, done.stderr) == (forms, "")


def test_a_module_that_is_missing_keeps_all_of_the_python_form(tree: Path) -> None:
    record(tree)
    last = tree / compiled(MESSENGER, MESSENGER.names[-1])
    last.unlink()
    try:
        assert look(tree).stdout == "Python Python\n"
    finally:
        last.write_bytes(b"no code")


def test_declarations_count_as_source(tmp_path: Path) -> None:
    below = HotModules(tmp_path / "below", ("below.pool", "below.receive"))
    above = HotModules(tmp_path / "above", ("above.decoder",), base=below)
    for path in below.home, above.home:
        path.mkdir()
    (below.home / "pool.py").write_text("")
    (above.home / "decoder.py").write_text("")
    seen = {(below.source_digest("below.pool"), above.source_digest("above.decoder"))}
    for path in below.home / "pool.pxd", below.home / "receive.pxd":  # either may be named by others
        path.write_text("cdef class Declared:\n    pass\n" + path.name)
        seen.add((below.source_digest("below.pool"), above.source_digest("above.decoder")))
    for digests in zip(*seen, strict=True):
        assert len(set(digests)) == 3


def slots(path: Path) -> Iterator[tuple[str, set[str]]]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__slots__":
                    yield node.name, set(ast.literal_eval(line.value))


@pytest.mark.parametrize(("package", "module"), MODULES)
def test_declared_classes_have_the_attributes_of_their_sources(package: HotModules, module: str) -> None:
    source = package.source_path(module)
    path = source.with_suffix(".pxd")
    text = path.read_text("utf-8") if path.exists() else ""
    declared = {
        name: set(re.findall(r"^    cdef public \w+ (\w+)$", body, re.MULTILINE))
        for name, body in re.findall(r"^cdef class (\w+)(?:\(\w+\))?:\n((?:    .*\n)+)", text, re.MULTILINE)
    }
    assert declared == {name: attributes for name, attributes in slots(source) if name not in PLAIN}


def test_no_declarations_lie_beside_modules_that_are_not_compiled() -> None:
    declared = {path for package in (MESSENGER, TOOLKIT) for path in package.home.glob("**/*.pxd")}
    assert declared <= {package.source_path(module).with_suffix(".pxd") for package, module in MODULES}


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
