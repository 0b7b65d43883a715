"""Every notebook runs from top to bottom, and shows what it promises."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@cache
def _executed(path: Path) -> tuple[nbformat.NotebookNode, list[Path]]:
    """The notebook with its outputs, and the files that it left behind."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as directory:
        client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": directory}})
        client.execute()
        return notebook, list(Path(directory).iterdir())


def _named(stem: str) -> nbformat.NotebookNode:
    (path,) = [path for path in NOTEBOOKS if path.stem == stem]
    return _executed(path)[0]


def _shown(notebook: nbformat.NotebookNode, mime: str) -> list[str]:
    """Everything of a kind that the cells show."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][mime] for output in outputs if mime in output.get("data", {})]


pytestmark = pytest.mark.xdist_group("notebooks")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_is_kept_without_output(path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert not any(cell.get("outputs") for cell in kept.cells), "clear the outputs before committing"
    executed, left_behind = _executed(path)
    failures = [o for cell in executed.cells for o in cell.get("outputs", ()) if o.output_type == "error"]
    assert not failures
    assert not left_behind, "a notebook leaves no files behind"


def test_clusters_show_themselves_hurt_and_whole() -> None:
    executed = _named("30-clusters")
    shown = _shown(executed, "text/html")
    tables = [html for html in shown if "invariants" in html and "<table" in html]
    assert all("does not hold" not in table for table in tables)
    assert any(">frozen</span>" in table and "freeze b" in table for table in tables)
    assert any(">down</span>" in table and "CONNECTING" in table for table in tables)
    assert any("a → b: nothing passes; delay 40ms" in table for table in tables)
    charts = [html for html in shown if "<svg" in html]
    assert len(charts) == 2
    assert all("cut" in chart for chart in charts)
    assert "SESSION_RECONNECT_OK" in charts[1]
    printed = "".join(
        o.text for cell in executed.cells for o in cell.get("outputs", ()) if o.output_type == "stream"
    )
    assert "seed 7, 11 steps: passed" in printed


def test_tour_shows_two_passed_runs_their_charts_and_the_history() -> None:
    shown = _shown(_named("00-tour"), "text/html")
    assert sum("<b>passed</b>" in html for html in shown) == 2
    charts = [html for html in shown if "<svg" in html]
    assert len(charts) == 2
    assert all("SESSION_RECONNECT_OK" in chart and "cut at" in chart for chart in charts)
    assert any("connect_seq" in html and "<table" in html for html in shown)
