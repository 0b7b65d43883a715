"""Every notebook runs from top to bottom, and shows what it promises."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def _execute(path: Path, directory: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(directory)}})
    client.execute()
    return notebook


def _shown(notebook: nbformat.NotebookNode, mime: str) -> list[str]:
    """Everything of a kind that the cells show."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output["data"][mime] for output in outputs if mime in output.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_is_kept_without_output(path: Path, tmp_path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert not any(cell.get("outputs") for cell in kept.cells), "clear the outputs before committing"
    executed = _execute(path, tmp_path)
    failures = [o for cell in executed.cells for o in cell.get("outputs", ()) if o.output_type == "error"]
    assert not failures
    assert not list(tmp_path.iterdir()), "a notebook leaves no files behind"


def test_tour_shows_two_passed_runs_their_charts_and_the_history(tmp_path: Path) -> None:
    (tour,) = [path for path in NOTEBOOKS if path.stem == "00-tour"]
    shown = _shown(_execute(tour, tmp_path), "text/html")
    assert sum("<b>passed</b>" in html for html in shown) == 2
    charts = [html for html in shown if "<svg" in html]
    assert len(charts) == 2
    assert all("SESSION_RECONNECT_OK" in chart and "cut at" in chart for chart in charts)
    assert any("connect_seq" in html and "<table" in html for html in shown)
