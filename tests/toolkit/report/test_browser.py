"""The report in a real browser: its script runs, and a link brings a hidden row back."""

import re
import subprocess
from pathlib import Path

import pytest

import toolkit
from toolkit.report.html import render_report

pytestmark = pytest.mark.needs("chromium")


def _dom(page: Path, profile: Path, anchor: str = "") -> str:
    """The document as the browser has it after the page's script ran."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={profile}", "--dump-dom", page.as_uri() + anchor]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def _rows(dom: str) -> dict[str, tuple[str, bool]]:
    """Kind, and whether it is hidden, of each row of the table of events, by anchor."""
    rows = re.findall(r'<tr id="([^"]+)" data-kind="(\w+)"([^>]*)>', dom)
    return {anchor: (kind, "hidden" in rest) for anchor, kind, rest in rows}


def test_report_runs_its_script(tmp_path: Path) -> None:
    run = toolkit.run("reconnect", mode="secure")
    page = tmp_path / "report.html"
    page.write_text(render_report([run.report(tmp_path)]), encoding="utf-8")
    rows = _rows(_dom(page, tmp_path / "profile"))
    hidden = {kind for kind, is_hidden in rows.values() if is_hidden}
    shown = {kind for kind, is_hidden in rows.values() if not is_hidden}
    assert {"frame", "send", "deliver"} <= hidden, "details wait until they are asked for"
    assert {"cut", "state", "event", "step"} <= shown
    frame = next(anchor for anchor, (kind, _) in rows.items() if kind == "frame")
    revealed = _rows(_dom(page, tmp_path / "profile", f"#{frame}"))
    assert revealed[frame] == ("frame", False)
