"""The report in a real browser: folding, filters, zoom, links to records, and how fast a large page opens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import toolkit
from tests.support.browser import Tab, browser
from toolkit.checks.history import History
from toolkit.report.html import ScenarioReport, render_report

pytestmark = pytest.mark.needs("chromium")

ROWS = "document.querySelectorAll('#s1 .chart-body .row').length"
FOLDS = "document.querySelectorAll('#s1 .chart-body .folded').length"
MOST_S = 2.0


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report of one run, and one of two."""
    folder = tmp_path_factory.mktemp("pages")
    reports = [toolkit.run(name, mode="secure").report(folder) for name in ("reconnect", "standby")]
    (folder / "one.html").write_text(render_report(reports[:1]), encoding="utf-8")
    (folder / "two.html").write_text(render_report(reports), encoding="utf-8")
    return folder


def _input(tab: Tab, selector: str, text: str) -> None:
    tab.value(f"""(() => {{
        const input = document.querySelector({selector!r});
        input.value = {text!r};
        input.dispatchEvent(new Event("input"));
    }})()""")


def _press_button(tab: Tab, words: str) -> None:
    tab.value(f"[...document.querySelectorAll('#s1 button')].find((b) => b.textContent === {words!r}).click()")


def test_runs_are_drawn_when_they_are_opened(tab: Tab, pages: Path) -> None:
    tab.screen(1200, 900)
    tab.open(pages / "two.html")
    assert tab.value(ROWS) == 0
    assert tab.value("document.documentElement.scrollHeight") <= 900
    tab.value("document.querySelector('#s1 > summary').click()")
    tab.until(f"{ROWS} > 10")
    assert tab.value("document.querySelector('#s2').open") is False


def test_the_index_filters_runs(tab: Tab, pages: Path) -> None:
    tab.open(pages / "two.html")
    _input(tab, ".index-tools input", "standby")
    tab.until("document.querySelector('.index-tools [role=status]').textContent === '1 of 2 runs'")
    assert tab.value("[...document.querySelectorAll('details.scenario')].map((run) => run.hidden)") == [
        True,
        False,
    ]
    tab.value("document.querySelector('[data-verdict=passed]').click()")
    tab.until("document.querySelector('.index-tools [role=status]').textContent === '0 of 2 runs'")


def test_folds_open_and_close(tab: Tab, pages: Path) -> None:
    tab.open(pages / "one.html")
    shown = "document.querySelector('#s1 .shown').textContent"
    before = tab.value(shown)
    assert "folded" in before
    tab.value("document.querySelector('#s1 .folded').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    tab.until(f"{shown} !== {before!r}")
    tags = "[...document.querySelectorAll('#s1 .chart-body .handshake .tag')].map((tag) => tag.textContent)"
    assert {"BANNER", "HELLO"} <= set(tab.value(tags))
    _press_button(tab, "Fold handshakes")
    _press_button(tab, "Fold long runs")
    assert tab.value(FOLDS) == 0
    count, _, whole = tab.value(shown).removesuffix(" rows").partition(" of ")
    assert count == whole


def test_rows_are_filtered_by_node_type_and_text(tab: Tab, pages: Path) -> None:
    tab.open(pages / "one.html")
    _input(tab, "#s1 .tools input[type=search]", "session_reconnect")
    tags = "[...new Set([...document.querySelectorAll('#s1 .chart-body .tag')].map((tag) => tag.textContent))]"
    tab.until(f"{tags}.every((tag) => tag.includes('SESSION_RECONNECT') || tag === 'WAIT')")
    assert "SESSION_RECONNECT_OK" in tab.value(tags)
    _input(tab, "#s1 .tools input[type=search]", "")
    tab.until(f"{tags}.includes('MESSAGE')")
    box = "[...document.querySelectorAll('#s1 .menu label')].find((each) => each.textContent.startsWith(' {} '))"
    tab.value(box.format("MESSAGE") + ".querySelector('input').click()")
    assert "MESSAGE" not in tab.value(tags)
    lanes = "[...document.querySelectorAll('#s1 .head-row .name')].map((name) => name.textContent)"
    assert tab.value(lanes) == ["a", "b"]
    tab.value(box.format("b") + ".querySelector('input').click()")
    assert tab.value(lanes) == ["a"]


def test_it_zooms_pans_and_keeps_the_names_in_sight(tab: Tab, pages: Path) -> None:
    tab.screen(1200, 900)
    tab.open(pages / "one.html")
    tab.value("document.querySelector('#s1 .chart-scroll').focus()")
    wide = "document.querySelector('#s1 .chart-body').offsetWidth"
    before = tab.value(wide)
    tab.press("+")
    tab.until(f"{wide} > {before} * 1.2")
    tab.press("0")
    tab.until(f"{wide} === {before}")
    tab.value("document.querySelector('#s1 .chart-scroll').scrollTo(0, 1e6)")
    gap = "document.querySelector('#s1 .head-row').getBoundingClientRect().top"
    gap += " - document.querySelector('#s1 .chart-scroll').getBoundingClientRect().top"
    assert abs(tab.value(gap)) <= 1
    tab.value("document.querySelector('#s1 .chart-scroll').scrollTo(0, 0)")
    tab.press("ArrowDown")
    tab.press("ArrowDown")
    tab.until("document.querySelector('#s1 .fields').textContent.includes('process at')")


def test_a_link_shows_its_record_whatever_is_filtered(tab: Tab, pages: Path) -> None:
    kinds = "[...document.querySelectorAll('#s1 .record')].map((line) => line.dataset.kind)"
    tab.open(pages / "one.html")
    assert "frame" not in tab.value(kinds), "details wait until they are asked for"
    place = tab.value(
        "JSON.parse(document.getElementById('s1-events').textContent).rows.find((r) => r[3] === 'frame')[0]"
    )
    tab.value(f"location.hash = '#s1-{place}'")
    tab.until(f"document.querySelector('#s1-{place}')?.classList.contains('chosen')")
    assert "frame" in tab.value(kinds)


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_screen_cuts_nothing_off(tab: Tab, pages: Path, dark: bool) -> None:  # noqa: FBT001 - of pytest
    tab.screen(390, 800, dark=dark)
    for name in ("one.html", "two.html"):
        tab.open(pages / name)
        tab.value("for (const run of document.querySelectorAll('details.scenario')) run.open = true")
        tab.until(f"{ROWS} > 5")
        assert tab.value("document.documentElement.scrollWidth") == 390
    tab.screen(1200, 900)


def test_ten_thousand_frames_open_at_once(tab: Tab, tmp_path: Path) -> None:
    history = History()
    for number in range(10_000):
        body = {"link": "a/1", "session": 1, "tag": "MESSAGE", "index": number, "offset": 0, "length": 100}
        told = {"fields": {"name": "ping", "type": 2, "seq": number + 1, "tid": number}}
        history.append(number / 1000, "a", "frame", direction="tx", **body, **told)
        history.append(number / 1000, "b", "frame", direction="rx", **body, **told)
    report = ScenarioReport("Many", "many", "", "sim", "crc", 1, None, 0, [], history, "")
    page = tmp_path / "many.html"
    page.write_text(render_report([report]), encoding="utf-8")
    took_s = tab.open(page)
    tab.until(f"{ROWS} > 5")
    assert took_s < MOST_S
    assert tab.value(ROWS) < 200
    _press_button(tab, "Fold long runs")
    tab.value("document.querySelector('#s1 .chart-scroll').scrollTo(0, 1e9)")
    tab.until("[...document.querySelectorAll('#s1 .chart-body .tip')].length > 5")
    tab.until("[...document.querySelectorAll('#s1 .chart-body title')].at(-1).textContent.includes('seq: 10000')")
