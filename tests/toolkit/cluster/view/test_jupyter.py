"""The live view in a real JupyterLab and a real browser."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Tab, browser
from tests.support.waiting import eventually
from toolkit.notebook.jupyter import command

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[4]
NOTEBOOK = "32-live-view.ipynb"
PATIENCE_S = 120.0
OPTIONS = (
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
)
RUN = "window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
READY = """((page) => page?.sessionContext?.isReady && page.sessionContext.session?.kernel?.status === "idle")(
    window.jupyterapp.shell.currentWidget)"""
CUT = """.msgrlab [data-fault="reset {a} {b}"]"""
SESSIONS = "document.querySelector('.msgrlab [data-part=sessions]').textContent"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of the notebook in a JupyterLab of its own."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copy(ROOT / "notebooks" / NOTEBOOK, folder)
    own = {"HOME": tmp_path, "MSGRLAB_STATE": tmp_path / "state", "PYTHONPATH": ROOT}
    own |= {f"JUPYTER_{name}_DIR": tmp_path / name.lower() for name in ("RUNTIME", "CONFIG", "DATA")}
    own |= {f"JUPYTERLAB_{name}_DIR": tmp_path / name.lower() for name in ("SETTINGS", "WORKSPACES")}
    log = tmp_path / "jupyter.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command(folder, port=0, browser=False, options=OPTIONS),
            env=os.environ | {name: str(value) for name, value in own.items()},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        infos = tmp_path / "runtime"
        eventually(lambda: list(infos.glob("jpserver-*.json")), PATIENCE_S, log.read_text)
        (info,) = infos.glob("jpserver-*.json")
        eventually(lambda: info.read_text().endswith("}"), PATIENCE_S)
        about = json.loads(info.read_text())
        yield f"{about['url']}lab/tree/{NOTEBOOK}?token={about['token']}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def test_a_fault_by_a_button_is_seen_in_words_and_states(address: str, tmp_path: Path) -> None:
    with browser(tmp_path / "chromium") as tab:
        tab.screen(1280, 1000)
        tab.visit(address)
        tab.until("document.querySelector('.jp-Notebook .jp-Cell') !== null && !!window.jupyterapp", PATIENCE_S)
        tab.until(READY, PATIENCE_S)
        tab.value(f"({RUN}.then(() => {RUN}), 0)")
        tab.until(f"document.querySelector('{CUT}:enabled') !== null", PATIENCE_S)
        tab.value("document.querySelector('.msgrlab').scrollIntoView()")
        tab.until(f"({SESSIONS}.match(/READY/g) ?? []).length >= 4", PATIENCE_S)
        _press_by_key(tab)
        words = "document.querySelector('.msgrlab [data-part=done]').textContent"
        tab.until(f"{words}.includes('cluster.fault(\"reset a b\")')", PATIENCE_S)
        tab.until(f"/READY →[^→]*(STANDBY|CONNECTING|REPLACING|WAIT) →.*READY/s.test({SESSIONS})", PATIENCE_S)
        assert tab.value(f"document.activeElement === document.querySelector('{CUT}')"), "a refresh took the focus"
        _narrow(tab)


def _press_by_key(tab: Tab) -> None:
    """Press the button for a cut as a user without a mouse does."""
    tab.value("""document.querySelector('.msgrlab [data-choice="b"]').focus()""")
    tab.press("Tab")
    tab.until(f"document.activeElement === document.querySelector('{CUT}')")
    shown = "document.querySelector('.msgrlab [data-preview]').textContent"
    tab.until(f"{shown} === 'cluster.fault(\"reset a b\")'")
    tab.press("Enter")


def _narrow(tab: Tab) -> None:
    """On a telephone nothing is cut off."""
    tab.value("window.jupyterapp.commands.execute('application:toggle-left-area').then(() => 0)")
    tab.screen(390, 800, dark=True)
    wide = "document.querySelector('.msgrlab').getBoundingClientRect().width"
    tab.until(f"{wide} > 200 && {wide} < 390", PATIENCE_S)
    inside = "[...document.querySelectorAll('.msgrlab *')].every((each) => each.scrollWidth <= each.clientWidth"
    inside += " || getComputedStyle(each).display === 'inline' || each.closest('svg, select, input, option'))"
    tab.until(inside, PATIENCE_S)
