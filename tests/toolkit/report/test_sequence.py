"""The chart as SVG: well-formed, by itself, without overlaps, and safe with any text."""

import re
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from toolkit.checks.history import History
from toolkit.report.rows import Arrow
from toolkit.report.sequence import SequenceChart
from toolkit.report.text import width

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"time": 10, "step": 10, "name": 13}
HOSTILE = "<script>alert('1')</script>&\"]]>"


def parse(history, **options):
    return ET.fromstring(SequenceChart(history, **options).svg())


def texts(root, class_=None):
    return [
        "".join(node.itertext())
        for node in root.iter(f"{SVG}text")
        if class_ is None or node.get("class") == class_
    ]


def boxes(root):
    """The rectangles that texts fill."""
    for node in root.iter(f"{SVG}text"):
        content = "".join(node.itertext())
        size = SIZES.get(node.get("class", ""), 11)
        wide = width(content, size) * 0.95
        x = float(node.get("x"))
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[node.get("text-anchor")]
        bottom = float(node.get("y")) + 2
        yield left, bottom - size, left + wide, bottom, content


def overlaps(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_a_whole_chart(reconnect):
    root = parse(reconnect)
    shown = texts(root)
    assert shown.count("a") == shown.count("b") == 2
    assert "SESSION_RECONNECTmsg_seq 0" in shown
    assert "cut at byte 40 of a's MESSAGE 13" in shown
    assert "200 ms of silence" in shown
    assert "… 10 MESSAGEseq 2-11" in shown
    assert "… 6 MESSAGEseq 14-19" in shown
    assert {"READY", "STANDBY", "CONNECTING", "SOCKET", "connect", "accept"} <= set(shown)


def test_no_text_covers_another(reconnect):
    found = list(boxes(parse(reconnect)))
    assert len(found) > 60
    assert [(a[4], b[4]) for a, b in combinations(found, 2) if overlaps(a, b)] == []


def test_all_boxes_lie_inside_the_chart(reconnect):
    chart = SequenceChart(reconnect)
    for left, top, right, bottom, content in boxes(ET.fromstring(chart.svg())):
        assert left >= 0, content
        assert top >= 0, content
        assert right <= chart.layout.width, content
        assert bottom <= chart.layout.height, content


def test_lost_frames_end_in_a_cross(reconnect):
    root = parse(reconnect)
    lost = [node for node in root.iter(f"{SVG}g") if "lost" in node.get("class", "").split()]
    crosses = [node for group in lost for node in group if node.get("class") == "cross"]
    assert len(lost) == len(crosses) == 4  # MESSAGE 13, 14-19, 20 and an ACK
    chart = SequenceChart(reconnect)
    middle = (chart.layout.x("a") + chart.layout.x("b")) / 2
    for group in lost:
        line = next(node for node in group if node.tag == f"{SVG}line")
        assert float(line.get("x2")) == pytest.approx(middle)


def test_tooltips_have_every_field(reconnect):
    titles = [node.text for node in parse(reconnect).iter(f"{SVG}title")]
    assert any("SESSION_RECONNECT_OK b → a" in title and "msg_seq: 12" in title for title in titles)
    assert any("b state at" in title and "server_cookie: 94" in title for title in titles)


def test_chart_loads_no_external_resource(reconnect):
    text = SequenceChart(reconnect).svg()
    assert re.findall(r"(?:https?:)?//[^\s\"<]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<image|<script|<use|@import|url\(|href=", text)
    assert "color-scheme: light dark" in text
    assert "color-scheme" not in SequenceChart(reconnect).inline()


def test_order_of_the_lifelines(reconnect):
    chart = SequenceChart(reconnect, ["b", "a"])
    assert chart.layout.x("b") < chart.layout.x("a")
    assert SequenceChart(reconnect, ["b"]).lifelines == ["b", "a"]


def test_hostile_text_is_escaped():
    history = History()
    for node in (HOSTILE, "b"):
        history.append(0, node, "process", action="start", incarnation=1)
    history.append(0.1, "scenario", "step", verb=HOSTILE, args=HOSTILE)
    history.append(0.2, "network", "cut", a=HOSTILE, b="b", at={"tag": HOSTILE}, detail=HOSTILE)
    history.append(0.3, HOSTILE, "event", session=1, peer="b", event="reset", detail=HOSTILE)
    history.append(0.4, "b", "fault", session=1, link="b/1", reason=HOSTILE, detail=HOSTILE)
    frame = {"link": HOSTILE, "session": 1, "tag": HOSTILE, "index": 0, "offset": 0, "length": 1}
    history.append(0.5, "b", "frame", direction="tx", fields={HOSTILE: HOSTILE}, **frame)
    root = parse(history)
    assert not list(root.iter(f"{SVG}script"))
    assert HOSTILE in texts(root, "name")


def test_text_that_xml_cannot_hold():
    """Control characters and lone surrogates of a peer's bytes leave the file well-formed."""
    history = History()
    history.append(0, "a\x00\x1b", "fault", session=1, link="a/1", reason="EOF", detail="\udcff\ufffe\x08")
    root = ET.fromstring(SequenceChart(history).svg().encode())
    assert root.tag == f"{SVG}svg"


def test_an_empty_history():
    root = parse(History())
    assert texts(root) == []
    history = History()
    history.append(0, "network", "cut", a="a", b="b", at={}, detail="now")
    assert "cut now" in texts(parse(history))


def test_long_charts_are_capped(reconnect):
    chart = SequenceChart(reconnect, most_rows=20)
    assert len(chart.rows) == 21
    assert any("more rows" in text for text in texts(ET.fromstring(chart.svg())))


def test_chart_of_a_time_span_uses_the_whole_history(reconnect):
    """Frames are paired and links numbered by the whole history."""
    whole = SequenceChart(reconnect, most_rows=1000, silence_s=1e9, longest_run=1000)
    begin_s, end_s = whole.rows[len(whole.rows) // 2].time_s, float("inf")
    part = SequenceChart(reconnect, most_rows=1000, silence_s=1e9, longest_run=1000, between=(begin_s, end_s))
    assert part.rows == [row for row in whole.rows if begin_s <= row.time_s <= end_s]
    assert part.lifelines == whole.lifelines


def test_times_have_enough_digits(reconnect):
    """Frames half a millisecond apart need a fourth digit."""
    times = texts(parse(reconnect), "time")
    assert times[:3] == ["0.0000", "0.0005", "0.0015"]
    assert len(times) == len(set(times))


def test_process_gaps_are_dotted(run):
    run.add_record("a", "process", action="start", incarnation=1)
    run.now_s = 0.01
    run.state("a", "READY")
    run.now_s = 0.02
    run.add_record("a", "process", action="kill", incarnation=1)
    run.now_s = 0.03
    run.add_record("a", "process", action="start", incarnation=2)
    lines = [node.get("class") for node in parse(run.history).iter(f"{SVG}line")]
    assert lines == ["dead", "life", "dead", "life"]
    bars = [node for node in parse(run.history).iter(f"{SVG}rect") if node.get("class") == "ready"]
    assert len(bars) == 1


def test_notebooks(reconnect):
    chart = SequenceChart(reconnect)
    assert chart._repr_html_().startswith('<div style="overflow-x:auto"><svg ')
    assert chart._repr_svg_() == chart.svg()
    assert "a → b  HELLO entity_type" in repr(chart), "where nothing is drawn there is text"


def test_the_table_has_every_frame_of_the_chart(reconnect):
    chart = SequenceChart(reconnect)
    table = chart.table()
    assert table["count"].sum() == sum(row.count for row in chart.rows if isinstance(row, Arrow))
    cut = table[table.fate == "lost"]
    assert set(cut.frame) == {"MESSAGE", "ACK"}
    assert table.loc[table.frame == "SESSION_RECONNECT", ["from", "to"]].to_numpy().tolist() == [["a", "b"]]


@pytest.mark.parametrize("kind", ["whole", "between"])
def test_a_narrow_chart_fits_on_a_telephone(reconnect, kind):
    options = {"between": (0.0, 1.0)} if kind == "between" else {}
    root = ET.fromstring(SequenceChart(reconnect, **options).narrow())
    wide = float(root.get("width"))
    assert wide <= 360
    rects = [rect for rect in root.iter("rect") if rect.get("class") != "sheet"]
    assert all(0 <= float(rect.get("x")) <= wide - float(rect.get("width")) for rect in rects)
    assert not [title for group in root.iter("g") for title in group.findall("title")]


def test_chart_follows_the_theme_of_jupyterlab_and_the_browser(reconnect):
    css = SequenceChart(reconnect).svg().partition("<style>")[2].partition("</style>")[0]
    order = ("\n.seq { color-scheme: light dark; }", '[data-jp-theme-light="false"] .seq', "@media print")
    places = [css.index(each) for each in order]
    assert places == sorted(places)
    assert "fill: #fff; fill: light-dark(#fff, #161a21);" in css, "with a colour for those who know no light-dark"
    plain, both = re.findall(r"(?<![\w-])(\w+): (#\w+);", css), re.findall(r"(\w+): light-dark\((#\w+),", css)
    assert set(both) <= set(plain)


def groups(root):
    """Class and first line of the tooltip of every group that has both."""
    for node in root.iter(f"{SVG}g"):
        title = node.find(f"{SVG}title")
        if title is not None and node.get("class"):
            yield node.get("class"), title.text.splitlines()[0]


def test_frames_and_chips_have_the_class_of_their_kind(reconnect):
    looks = {tip: class_ for class_, tip in groups(parse(reconnect))}
    assert looks["HELLO a → b"] == "handshake arrived"
    assert looks["SESSION_RECONNECT a → b"] == "session arrived"
    assert looks["ACK b → a"] == "quiet arrived"
    assert looks["10 frames MESSAGE a → b, arrived"] == "data arrived"
    assert looks["6 frames MESSAGE a → b, lost"] == "data lost"
    chips = {class_ for class_, _ in groups(parse(reconnect)) if class_.startswith("chip")}
    assert chips == {f"chip {look}" for look in ("started", "connecting", "ready-state", "standby", "fault")} | {
        "chip connect",
        "chip accept",
        "chip decision",
    }


def test_style_sheet_has_every_class(reconnect):
    css = SequenceChart(reconnect).svg().partition("<style>")[2].partition("</style>")[0]
    for class_, _ in groups(parse(reconnect)):
        assert f".{class_.split()[-1]} " in css or class_.endswith(" arrived"), class_


def test_arrows_point_at_the_receiver(reconnect):
    chart = SequenceChart(reconnect)
    for node in ET.fromstring(chart.svg()).iter(f"{SVG}g"):
        tip = node.find(f"{SVG}path[@class='tip']")
        if tip is None:
            continue
        _, _, target = node.find(f"{SVG}title").text.splitlines()[0].partition(" → ")
        x = chart.layout.x(target[0])
        assert tip.get("d").startswith(f"M{x:g} ")
        assert ("l-7 " in tip.get("d")) == (x == max(chart.layout.x("a"), chart.layout.x("b")))


def test_folded_frames_are_drawn_thick(reconnect):
    shafts = [node.get("class") for node in parse(reconnect).iter(f"{SVG}line")]
    assert shafts.count("shaft many") == 3


def test_chips_of_one_moment_share_a_row(run):
    for node in ("a", "b", "c"):
        run.add_record(node, "process", action="start", incarnation=1)
    run.add_record("a", "process", action="kill", incarnation=1)
    run.now_s = 1
    run.add_record("b", "process", action="kill", incarnation=1)
    tops = SequenceChart(run.history, silence_s=9).layout.tops
    assert tops[0] == tops[1] == tops[2] < tops[3] < tops[4]


def test_labels_stand_between_lifelines(run):
    for node in ("a", "b", "c", "d"):
        run.add_record(node, "process", action="start", incarnation=1)
    layout = SequenceChart(run.history).layout
    places = {end: layout.label_place("a", end)[0] for end in "bcd"}
    assert places == {
        "b": (layout.x("a") + layout.x("b")) / 2,
        "c": (layout.x("a") + layout.x("b")) / 2,
        "d": (layout.x("b") + layout.x("c")) / 2,
    }
    assert layout.label_place("d", "b")[0] == (layout.x("d") + layout.x("c")) / 2


def test_a_single_lifeline(run):
    run.add_record("a", "fault", session=1, link="a/1", reason="EOF", detail="over")
    (note,) = [n for n in parse(run.history).iter(f"{SVG}text") if n.get("class") == "label note"]
    assert note.get("text-anchor") == "start"
