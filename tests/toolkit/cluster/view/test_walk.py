"""The walk of the README: a cluster in a notebook, a button, a page of frames, a test in another repository."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.support.browser import Tab, browser
from tests.support.waiting import eventually
from tests.toolkit.cluster.view.conftest import CUT, DONE, PATIENCE_S, ROOT, JupyterLab
from toolkit.cli.main import run as msgrlab

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(900), pytest.mark.xdist_group("jupyter")]

README = (ROOT / "README.md").read_text(encoding="utf-8")
CELLS = [
    block
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    if "cluster.view()" in block or "as_test" in block
]
(CHART,) = re.findall(r"`msgrlab (chart kept/[^`]*)`", README)
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
PANEL = "document.querySelector('.frame-panel')"


def test_the_walk_of_the_readme(jupyter: JupyterLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, write = CELLS
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in (start, write)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    nbformat.write(notebook, jupyter.folder / "walk.ipynb")
    monkeypatch.chdir(jupyter.folder)
    with browser(tmp_path / "chromium") as tab:
        tab.screen(1280, 1000)
        with jupyter.shown(tab, "walk.ipynb"):
            jupyter.run_cells(tab, 1)
            _cut(tab, jupyter)
            jupyter.run_cells(tab, 1)
            eventually(lambda: Path("kept/history.ndjson").exists() and not jupyter.clusters(), PATIENCE_S)
        assert msgrlab(CHART.split()) == 0
        _find_a_message(tab, jupyter.folder / "where.html")
    _passes_in_a_project(tmp_path / "project", jupyter.folder / "test_cut.py")


def _cut(tab: Tab, jupyter: JupyterLab) -> None:
    """Press the button; the sessions leave READY and come back."""
    tab.until(f"document.querySelector('{CUT}:enabled') !== null", PATIENCE_S)
    tab.value("document.querySelector('.msgrlab').scrollIntoView()")
    before_s = jupyter.await_sessions(tab)
    tab.value(f"document.querySelector('{CUT}').click()")
    tab.until(f"{DONE}.includes('cluster.fault(\"reset a b\")')", PATIENCE_S)
    jupyter.await_sessions(tab, before_s)


def _find_a_message(tab: Tab, page: Path) -> None:
    """Filter the chart by a message, and open its frame."""
    tab.open(page)
    search = "document.querySelector('#s1 .tools input[type=search]')"
    tab.value(f"{search}.value = 'message a'; {search}.dispatchEvent(new Event('input'))")
    rows = "[...document.querySelectorAll('#s1 .chart-body .row.data:not(.folded)')]"
    tab.until(f"{rows}.length > 0 && {rows}.every((row) => /^MESSAGE a → b/.test(row.textContent))", PATIENCE_S)
    tab.value(f"{rows}[0].dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    tab.until(f"/^MESSAGE a → b/.test({PANEL}.querySelector('.frame-title')?.textContent)", PATIENCE_S)
    assert tab.value(f"/seq 1/.test({PANEL}.innerText) && /sent at [\\d.]+ s/.test({PANEL}.innerText)")


def _passes_in_a_project(project: Path, test: Path) -> None:
    """The test passes in a repository of the user's."""
    assert msgrlab(["init", "tests", str(project)]) == 0
    (project / "tests" / "test_cut.py").write_text(test.read_text(encoding="utf-8"), encoding="utf-8")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_cut.py"]
    done = subprocess.run(line, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
