"""The live view in a real JupyterLab and a real browser."""

import shutil
from pathlib import Path

import pytest

from tests.support.browser import Tab, browser
from tests.toolkit.cluster.view.conftest import CUT, DONE, PATIENCE_S, ROOT, JupyterLab

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(900), pytest.mark.xdist_group("jupyter")]

NOTEBOOK = "32-live-view.ipynb"


def test_fault_button_shows_the_fault_and_the_states(jupyter: JupyterLab, tmp_path: Path) -> None:
    shutil.copy(ROOT / "notebooks" / NOTEBOOK, jupyter.folder)
    with browser(tmp_path / "chromium") as tab:
        tab.screen(1280, 1000)
        with jupyter.shown(tab, NOTEBOOK):
            jupyter.run_cells(tab, 2)
            tab.until(f"document.querySelector('{CUT}:enabled') !== null", PATIENCE_S)
            tab.value("document.querySelector('.msgrlab').scrollIntoView()")
            before_s = jupyter.await_sessions(tab)
            _press_by_key(tab)
            tab.until(f"{DONE}.includes('cluster.fault(\"reset a b\")')", PATIENCE_S)
            jupyter.await_sessions(tab, before_s)  # a session that is READY anew has left it
            assert tab.value(f"document.activeElement === document.querySelector('{CUT}')"), (
                "a refresh took the focus"
            )
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
    """Check that nothing is cut off on the screen of a telephone."""
    tab.value("window.jupyterapp.commands.execute('application:toggle-left-area').then(() => 0)")
    tab.screen(390, 800, dark=True)
    wide = "document.querySelector('.msgrlab').getBoundingClientRect().width"
    tab.until(f"{wide} > 200 && {wide} < 390", PATIENCE_S)
    inside = "[...document.querySelectorAll('.msgrlab *')].every((each) => each.scrollWidth <= each.clientWidth"
    inside += " || getComputedStyle(each).display === 'inline' || each.closest('svg, select, input, option'))"
    tab.until(inside, PATIENCE_S)
