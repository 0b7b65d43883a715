"""The report in a real browser: folding, filters, zoom, links to records, bytes of frames, and large pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import toolkit
from tests.support.browser import Tab, browser
from toolkit.capture.ready_made import ready_made
from toolkit.checks.history import History
from toolkit.cli.main import run as msgrlab
from toolkit.report.frame_bytes import ShownFrame, ShownPart
from toolkit.report.html import ScenarioReport, render_report

pytestmark = pytest.mark.needs("chromium")

ROWS = "document.querySelectorAll('#s1 .chart-body .row').length"
FOLDS = "document.querySelectorAll('#s1 .chart-body .folded').length"
PANEL = "document.querySelector('#s1 .frame-panel')"
IDENT = (
    "[...document.querySelectorAll('#s1 .chart-body .session')]"
    ".find((row) => /CLIENT_IDENT/.test(row.textContent))"
)
CHOSEN_BYTES = f"[...{PANEL}.querySelectorAll('.dump .chosen')].map((each) => each.textContent).join(' ')"


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


def test_chart_zooms_and_pans_with_visible_names(tab: Tab, pages: Path) -> None:
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
        rates = "[...document.querySelectorAll('.scroll')].filter((each) => each.querySelector('.rates'))"
        assert tab.value(f"{rates}.length") > 0
        assert tab.value(f"{rates}.filter((each) => each.scrollWidth > each.clientWidth).length") == 0
    tab.screen(1200, 900)
    shown = "[...document.querySelectorAll('svg.rates')].filter((each) => each.checkVisibility()).length"
    assert tab.value(shown) == tab.value(f"{rates}.length")


def _click(tab: Tab, element: str) -> None:
    tab.value(f"{element}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")


def _field(name: str) -> str:
    """The button of a field of the frame that the panel shows."""
    return f"[...{PANEL}.querySelectorAll('button[data-part]')].find((each) => each.textContent === {name!r})"


@pytest.fixture(scope="module")
def capture_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that ``msgrlab chart`` writes of a capture."""
    page = tmp_path_factory.mktemp("capture") / "page.html"
    folder = ready_made()["tentacle-osds"]
    keyring = ["--keyring", str(folder / "keyring")]
    assert msgrlab(["chart", str(folder / "capture.pcapng.gz"), *keyring, "-o", str(page)]) == 0
    return page


def test_a_click_on_a_frame_of_a_capture_shows_its_bytes_beside_its_fields(tab: Tab, capture_page: Path) -> None:
    tab.screen(1200, 900)
    tab.open(capture_page)
    assert tab.value(f"{PANEL}.hidden")
    _click(tab, IDENT)
    tab.until(f"!{PANEL}.hidden")
    assert "CLIENT_IDENT" in tab.value(f"{PANEL}.querySelector('.frame-title').textContent")
    _click(tab, _field("global_seq"))
    assert tab.value(CHOSEN_BYTES) == "01 00 00 00 00 00 00 00"
    _click(tab, f"{PANEL}.querySelector('.dump [data-part=\"1\"]')")
    assert tab.value(f"{PANEL}.querySelector('button.chosen').textContent") == "addrs"


def test_the_keyboard_opens_walks_and_closes_the_bytes(tab: Tab, capture_page: Path) -> None:
    tab.screen(1200, 900)
    tab.open(capture_page)
    tab.value("document.querySelector('#s1 .chart-scroll').focus()")
    tab.press("ArrowDown")  # a fold
    tab.press("ArrowDown")
    tab.press("Enter")
    tab.until(f"!{PANEL}.hidden")
    title = f"{PANEL}.querySelector('.frame-title').textContent"
    tab.press("ArrowDown")
    tab.until(f"{title}.includes('SERVER_IDENT')")
    tab.value(f"{_field('addrs')}.focus()")
    tab.press("ArrowDown")
    assert tab.value(f"{PANEL}.querySelector('[aria-pressed=true]') === document.activeElement")
    tab.press("Escape")
    assert tab.value(f"{PANEL}.hidden")
    assert tab.value("document.activeElement === document.querySelector('#s1 .chart-scroll')")


def test_a_run_shows_the_fields_of_a_frame_and_why_there_are_no_bytes(tab: Tab, pages: Path) -> None:
    tab.open(pages / "one.html")
    _click(tab, IDENT)
    tab.until(f"!{PANEL}.hidden")
    assert tab.value(f"/client_cookie/.test({PANEL}.textContent) && /^No bytes/m.test({PANEL}.innerText)")


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_narrow_screen_the_bytes_are_below_the_chart(tab: Tab, capture_page: Path, dark: bool) -> None:  # noqa: FBT001 - of pytest
    tab.screen(390, 800, dark=dark)
    tab.open(capture_page)
    _click(tab, IDENT)
    tab.until(f"!{PANEL}.hidden && {PANEL}.getBoundingClientRect().width > 300")
    assert tab.value("document.documentElement.scrollWidth") == 390
    assert tab.value(
        f"[...{PANEL}.querySelectorAll('.dump')].every((each) => each.scrollWidth <= each.clientWidth)"
    )
    tab.screen(1200, 900)


def _many(count: int) -> ScenarioReport:
    """A report of so many messages, each with bytes and fields as one of a capture has them."""
    history = History()
    for number in range(count):
        body = {"link": "a/1", "session": 1, "tag": "MESSAGE", "index": number, "offset": 0, "length": 100}
        message = {"fields": {"name": "ping", "type": 2, "seq": number + 1, "tid": number}, "frame": number}
        history.append(number / 1000, "a", "frame", direction="tx", **body, **message)
        history.append(number / 1000, "b", "frame", direction="rx", **body, **message)
    parts = [ShownPart(f"field {n}", str(n), 0, (range(8 * n, 8 * n + 8),)) for n in range(20)]
    frames = (
        (number, lambda number=number: ShownFrame(f"frame {number}", "", [("on the wire", bytes(300))], parts))
        for number in range(count)
    )
    return ScenarioReport("Many", "many", "", "sim", "crc", 1, None, 0, [], history, "", frames=frames)


def test_ten_thousand_frames_are_drawn_and_read_when_they_are_in_sight(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "many.html"
    page.write_text(render_report([_many(10_000)]), encoding="utf-8")
    tab.open(page)
    tab.until(f"{ROWS} > 5")
    assert tab.value(ROWS) < 200
    store = "made.get('s1').chart.panel.store"
    assert tab.value(f"{store}.lines === undefined"), "the bytes wait until they are asked for"
    _press_button(tab, "Fold long runs")
    tab.value("document.querySelector('#s1 .chart-scroll').scrollTo(0, 1e9)")
    tab.until("[...document.querySelectorAll('#s1 .chart-body .tip')].length > 5")
    tab.until("[...document.querySelectorAll('#s1 .chart-body title')].at(-1).textContent.includes('seq: 10000')")
    _click(tab, "[...document.querySelectorAll('#s1 .chart-body .row')].at(-1)")
    tab.until(f"{PANEL}.querySelector('.frame-title')?.textContent === 'frame 9999'")
