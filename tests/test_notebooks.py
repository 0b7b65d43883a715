"""Every notebook runs from top to bottom, and has the outputs in it that it shows then."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

from toolkit.doctor.catalogue import find

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
AGAIN = "run: make notebooks"
SVG = "image/svg+xml"
DOCUMENTED = {
    *("messenger", "toolkit", "toolkit.errors", "toolkit.dissect.layers"),
    *("toolkit.conformance", "toolkit.faults.live"),
    *("toolkit.matrix.evidence", "toolkit.matrix.results", "toolkit.matrix.runner", "toolkit.matrix.table"),
    *("toolkit.cluster", "toolkit.cluster.spec", "toolkit.cluster.spec.model", "toolkit.cluster.nemesis"),
}
"""What the README and docs/ import from."""
INSIDE = {
    "11-find-a-bug-and-shrink-it": {"messenger.session.queue"},
    "14-rdma": {"messenger.transport.rdma.record", "toolkit.network"},
}
"""By notebook, what else it imports: to plant a bug, or to read what messengers exchange."""

NEEDS = {"14-rdma": "vm", "31-real-ceph-under-faults": "ceph-osd"}
"""By notebook, the feature without which some of its cells show nothing."""


@cache
def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _executed(path: Path) -> tuple[nbformat.NotebookNode, list[Path]]:
    return _script().executed(path)


def _grouped(path: Path) -> object:
    """A test's parameter; all tests about one notebook run in one worker, which runs it once."""
    return pytest.param(path, id=path.stem, marks=pytest.mark.xdist_group(f"notebook {path.stem}"))


def _path(stem: str) -> Path:
    return ROOT / "notebooks" / f"{stem}.ipynb"


def _shown(notebook: nbformat.NotebookNode, mime: str) -> list[str]:
    """Everything of a kind that the cells show."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][mime] for output in outputs if mime in output.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_contain_current_outputs(path: Path) -> None:
    kept = _script().kept(path)
    nbformat.validate(kept)
    assert kept.metadata.get("msgrlab", {}).get("code") == _script().digest(kept), AGAIN
    assert any(cell.get("outputs") for cell in kept.cells), AGAIN
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), AGAIN


@pytest.mark.parametrize("path", [_grouped(path) for path in NOTEBOOKS])
def test_notebook_runs_and_shows_the_kept_outputs(path: Path) -> None:
    executed, left_behind = _executed(path)
    assert not left_behind, "a notebook leaves no files behind"
    if path.stem in NEEDS and not find(NEEDS[path.stem]).examine().available:
        return  # it said so, and ran to its end
    for cell, kept in zip(executed.cells, _script().kept(path).cells, strict=True):
        if cell.cell_type != "code":
            continue
        if _script().is_live(path, cell):
            assert bool(cell.outputs) == bool(kept.outputs), AGAIN
        else:
            assert cell.outputs == kept.outputs, f"{cell.source}\n{AGAIN}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_only_documented_modules_are_imported(path: Path) -> None:
    """A notebook shows what users may rely on."""
    code = "\n".join(cell.source for cell in _script().kept(path).cells if cell.cell_type == "code")
    imported = set(re.findall(r"^\s*(?:from|import) ((?:messenger|toolkit)[\w.]*)", code, re.MULTILINE))
    assert imported <= DOCUMENTED | INSIDE.get(path.stem, set())


def test_the_readme_lists_them_all() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if f"(notebooks/{path.name})" not in readme] == []


@pytest.mark.parametrize("path", [_grouped(_path("30-clusters"))])
def test_notebook_shows_clusters_with_faults_and_after_repair(path: Path) -> None:
    executed, _ = _executed(path)
    shown = _shown(executed, "text/html")
    tables = [html for html in shown if "invariants" in html and "<table" in html]
    assert all("does not hold" not in table for table in tables)
    assert any(">frozen</span>" in table and "freeze b" in table for table in tables)
    assert any(">down</span>" in table and "CONNECTING" in table for table in tables)
    assert any("a → b: nothing passes; delay 40ms" in table for table in tables)
    charts = _shown(executed, SVG)
    assert len(charts) == 2
    assert all("cut" in chart for chart in charts)
    assert "SESSION_RECONNECT_OK" in charts[1]
    printed = "".join(
        o.text for cell in executed.cells for o in cell.get("outputs", ()) if o.output_type == "stream"
    )
    assert "seed 7, 11 steps: passed" in printed


@pytest.mark.parametrize("path", [_grouped(_path("00-tour"))])
def test_tour_shows_two_passed_runs_their_charts_and_the_history(path: Path) -> None:
    executed, _ = _executed(path)
    shown = _shown(executed, "text/html")
    assert sum("<b>passed</b>" in html for html in shown) == 2
    charts = _shown(executed, SVG)
    assert len(charts) == 2
    assert all("SESSION_RECONNECT_OK" in chart and "cut at" in chart for chart in charts)
    assert any("connect_seq" in html and "<table" in html for html in shown)
