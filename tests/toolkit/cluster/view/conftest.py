"""A JupyterLab, which all tests of a session share, and notebooks in it as a user has them in a browser."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.support.browser import Tab
from tests.support.waiting import eventually
from toolkit.notebook.jupyter import command

ROOT = Path(__file__).parents[4]
PATIENCE_S = 180.0
RUN_PATIENCE_S = 10.0
"""So long it may take until a cell runs."""
OPTIONS = (
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)
CELLS = "window.jupyterapp.shell.currentWidget.content"
RUN = "window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
READY = """((page) => page?.sessionContext?.isReady && page.sessionContext.session?.kernel?.status === "idle")(
    window.jupyterapp.shell.currentWidget)"""
CUT = """.msgrlab [data-fault="reset {a} {b}"]"""
DONE = "document.querySelector('.msgrlab [data-part=done]').textContent"
_STATES = """[...document.querySelectorAll('.msgrlab [data-part=sessions] .trail')].map(
    (each) => each.textContent.match(/[\\d.]+ [A-Z]+/g)?.at(-1) ?? '')"""
"""The last state of each session, with its time: ``1.234 READY``."""


@dataclass(frozen=True)
class JupyterLab:
    """A JupyterLab on an empty folder."""

    folder: Path
    url: str
    token: str

    @contextmanager
    def shown(self, tab: Tab, notebook: str) -> Iterator[None]:
        """Open a notebook of the folder, and wait for its kernel; both end with the block, and its cluster."""
        tab.visit(f"{self.url}lab/tree/{notebook}?token={self.token}&reset")
        tab.until("document.querySelector('.jp-Notebook .jp-Cell') !== null && !!window.jupyterapp", PATIENCE_S)
        tab.until(READY, PATIENCE_S)
        try:
            yield
        except AssertionError as error:
            error.add_note(tab.value("document.querySelector('.jp-Notebook').innerText"))
            raise
        for session in self._ask("GET", "api/sessions"):
            self._ask("DELETE", f"api/sessions/{session['id']}")
        eventually(lambda: not self.clusters(), PATIENCE_S)

    def _ask(self, method: str, path: str) -> Any:
        headers = {"Authorization": f"token {self.token}"}
        with urlopen(Request(self.url + path, method=method, headers=headers), timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or "null")

    def clusters(self) -> list[Path]:
        """The histories of clusters that are up or on their way down."""
        return [*(self.folder.parent / "state").glob("**/history.ndjson")]

    @staticmethod
    def run_cells(tab: Tab, count: int) -> None:
        """Run the next cells; what they do is waited for by its effects.

        A page that is not ready yet takes the command without doing anything; otherwise it selects the next cell.
        """
        for _ in range(count):
            index = tab.value(f"{CELLS}.activeCellIndex")
            runs = f"{CELLS}.activeCellIndex > {index}"

            def run(runs: str = runs) -> bool:
                tab.value(f"({RUN}, 0)")
                with suppress(AssertionError):
                    tab.until(runs, RUN_PATIENCE_S)
                return bool(tab.value(runs))

            eventually(run, PATIENCE_S)

    @staticmethod
    def await_sessions(tab: Tab, after_s: float = -1.0) -> float:
        """Wait until both sessions are READY, one at least since ``after_s``; returns the time of the last."""
        ready = f"{_STATES}.filter((each) => each.endsWith(' READY'))"
        times = f"{ready}.map(parseFloat)"
        tab.until(
            f"{ready}.length === 2 && {_STATES}.length === 2 && Math.max(...{times}) > {after_s}", PATIENCE_S
        )
        return float(tab.value(f"Math.max(...{times})"))


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    own = {"HOME": home, "MSGRLAB_STATE": home / "state", "PYTHONPATH": ROOT}
    own |= {f"JUPYTER_{name}_DIR": home / name.lower() for name in ("RUNTIME", "CONFIG", "DATA")}
    own |= {f"JUPYTERLAB_{name}_DIR": home / name.lower() for name in ("SETTINGS", "WORKSPACES")}
    log = home / "jupyter.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command(folder, port=0, browser=False, options=OPTIONS),
            env=os.environ | {name: str(value) for name, value in own.items()},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        infos = home / "runtime"
        eventually(lambda: list(infos.glob("jpserver-*.json")), PATIENCE_S, log.read_text)
        (info,) = infos.glob("jpserver-*.json")
        eventually(lambda: info.read_text().endswith("}"), PATIENCE_S)
        about = json.loads(info.read_text())
        yield JupyterLab(folder, about["url"], about["token"])
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
