"""Bytecode for guests: compiled once on the host, without a change of the sources' directories."""

import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest

from toolkit.machine.vm.bytecode import layer


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three modules, of which the host has bytecode for one."""
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "site/toolkit/old").mkdir(parents=True)
    for name in ("first", "second", "old/third"):
        (tmp_path / f"site/toolkit/{name}.py").write_text("x = 1\n")
    py_compile.compile(str(tmp_path / "site/toolkit/first.py"))
    return tmp_path / "site"


def compiled(packages: Path, root: Path) -> dict[str, int]:
    """Modules in the layer, and the times of their bytecode."""
    directory = layer(packages, root)
    assert directory is not None
    base = directory / packages.relative_to("/") / "toolkit"
    found = [path for path in directory.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(base) and path.parent.name == "__pycache__" for path in found)
    return {str(path.relative_to(base)).partition(".")[0]: path.stat().st_mtime_ns for path in found}


def test_missing_bytecode_is_compiled_once(packages: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache/images"
    before = compiled(packages, root)
    assert set(before) == {"__pycache__/second", "old/__pycache__/third"}
    assert not (packages / "toolkit/old/__pycache__").exists()
    assert compiled(packages, root) == before


def test_guests_find_bytecode_beside_the_sources_if_the_host_keeps_its_own_elsewhere(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "elsewhere"))
    assert set(compiled(packages, tmp_path / "cache/images")) == {"__pycache__/second", "old/__pycache__/third"}


def test_bytecode_is_up_to_date_for_python(packages: Path, tmp_path: Path) -> None:
    directory = layer(packages, tmp_path / "cache/images")
    assert directory is not None
    source = packages / "toolkit/second.py"
    beside = Path(importlib.util.cache_from_source(str(source)))
    here = directory / beside.relative_to("/")
    py_compile.compile(str(source))
    assert here.read_bytes()[:16] == beside.read_bytes()[:16]


def test_bytecode_follows_changes_of_the_sources(packages: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache/images"
    before = compiled(packages, root)
    os.utime(packages / "toolkit/second.py", (1, 1))
    (packages / "toolkit/old/third.py").unlink()
    after = compiled(packages, root)
    assert set(after) == {"__pycache__/second"}
    assert after["__pycache__/second"] > before["__pycache__/second"]
    assert [path.name for path in (tmp_path / "cache").rglob("old")] == []


def test_bytecode_that_a_running_guest_may_use_stays(packages: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache/images"
    before = compiled(packages, root)
    for name in ("second", "old/third"):
        py_compile.compile(str(packages / f"toolkit/{name}.py"))
    assert compiled(packages, root) == before


def test_a_cache_that_cannot_be_used_gives_no_layer(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "bytecode").touch()
    assert layer(packages, tmp_path / "images") is None
