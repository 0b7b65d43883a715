"""The report as one file: everything in it, nothing from outside, hostile text harmless."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.checks.invariants import INVARIANTS, check
from toolkit.checks.result import CheckResult, Violation
from toolkit.report.html import Provenance, ScenarioReport, Verdict, render_report, report_parts

VOID = {"meta", "br", "rect", "line", "path", "input"}
PROVENANCE = Provenance("msgrlab run reconnect --html x.html", "0.1.0", "2026-11-23 16:00 UTC")
HOSTILE = "<script>alert('1')</script><img src=x onerror=alert(1)>\"'&"


class Page(HTMLParser):
    """Tags, their attributes and the text of a page; fails if tags are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.source = [], [], [], text
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)

    def values(self, anchor):
        """The data of a script element."""
        (found,) = re.findall(
            f'<script type="application/json" id="{anchor}">(.*?)</script>', self.source, re.DOTALL
        )
        return json.loads(found)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def ids(self):
        return [attrs["id"] for _, attrs in self.tags if "id" in attrs]


@pytest.fixture
def report(reconnect):
    return ScenarioReport(
        title="Cut in mid-traffic",
        id="reconnect",
        description="The link is cut in the middle of a frame.",
        backend="sim",
        mode="crc",
        seed=7,
        verdict=Verdict.PASSED,
        duration_s=0.021,
        checks=check(reconnect),
        history=reconnect,
        replay_command="msgrlab run reconnect --backend sim --mode crc --seed 7",
        artefacts={"history": "reconnect/history.ndjson", "outcome": "/tmp/out/outcome.json"},
        lifelines=["b", "a"],
    )


def failed(report):
    checks = [
        CheckResult("INV-1", "Lossless delivery", ok=False, violations=[Violation(40, "tid 2 never arrived")]),
        CheckResult("INV-6", "Liveness", ok=True, violations=[], note="the run did not come to rest"),
    ]
    report.verdict, report.checks, report.reason = Verdict.FAILED, checks, "expected 20 messages, 19 came"
    return report


def test_the_histories_of_these_tests_are_clean(reconnect):
    assert [result.violations for result in check(reconnect)] == [[]] * len(INVARIANTS)


def test_report_contains_every_part(report):
    page = Page(render_report([report], "Nightly", PROVENANCE))
    for part in (
        "Nightly",
        "1 passed",
        "Cut in mid-traffic",
        "The link is cut in the middle of a frame.",
        f"of {len(INVARIANTS)} hold",
        "INV-8",
        "msgrlab run reconnect --backend sim --mode crc --seed 7",
        "msgrlab 0.1.0, 2026-11-23 16:00 UTC: msgrlab run reconnect --html x.html",
        "/tmp/out/outcome.json",
    ):
        assert part in page.text, part
    assert [row["tag"] for row in page.values("s1-chart")["rows"] if row["kind"] == "frame"][:2] == ["BANNER"] * 2
    assert {"href": "./reconnect/history.ndjson"} in page.all("a")
    assert len(page.ids) == len(set(page.ids))
    events = {row[4] for row in page.values("s1-events")["rows"]}
    assert {"a and b cut at byte 40 of a's MESSAGE 13", "session 1 with b: connect"} <= events
    anchors = {*page.ids, *(f"s1-{row[0]}" for row in page.values("s1-events")["rows"])}
    assert {link["href"][1:] for link in page.all("a") if link["href"].startswith("#")} <= anchors


def test_failures_have_text_and_place(report):
    page = Page(render_report([failed(report)]))
    assert "1 failed" in page.text
    assert "What went wrong: expected 20 messages, 19 came" in page.text
    assert "tid 2 never arrived record 40" in page.text
    assert "Not judged: the run did not come to rest." in page.text
    assert {"href": "#s1-40"} in page.all("a")
    events = page.values("s1-events")
    assert events["wrong"] == [40]
    assert [row[3] for row in events["rows"] if row[0] == 40] == [report.history[40].kind]


def test_unsupported_has_a_reason(report):
    report.verdict, report.reason = Verdict.UNSUPPORTED, "no /dev/kvm here"
    report.history, report.checks, report.seed, report.artefacts = History(), [], None, {}
    page = Page(render_report([report]))
    assert "Unsupported here: no /dev/kvm here" in page.text
    assert "Sequence" not in page.text
    assert "Events" not in page.text


def test_page_loads_no_external_resource(report):
    text = render_report([failed(report)])
    assert re.findall(r"(?i)(?:https?:)?//[\w.]+", text.split("<script>")[0]) == []
    assert not re.search(r"(?i)https?:(?!//www\.w3\.org/2000/svg)|@import|url\(|<link|<img|<iframe| src=", text)
    (policy,) = [meta["content"] for meta in Page(text).all("meta") if "http-equiv" in meta]
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    assert "default-src 'none'" in policy
    assert b64encode(sha256(script.encode()).digest()).decode() in policy


def test_hostile_text_is_escaped(report):
    history = report.history
    history.append(1, HOSTILE, "step", verb=HOSTILE, args=HOSTILE)
    history.append(1, "a", "fault", session=1, link=HOSTILE, reason=HOSTILE, detail=HOSTILE)
    report.title = report.id = report.description = report.backend = report.mode = HOSTILE
    report.replay_command = report.reason = HOSTILE
    report.artefacts = {HOSTILE: HOSTILE, "js": "javascript:alert(1)", "up": "../../etc/passwd"}
    report.checks = [CheckResult(HOSTILE, HOSTILE, ok=False, violations=[Violation(3, HOSTILE)], note=HOSTILE)]
    page = Page(render_report([report], HOSTILE))
    assert [script.get("type") for script in page.all("script")] == ["application/json", "application/json", None]
    assert page.all("img") == []
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    hrefs = [link["href"] for link in page.all("a")]
    assert "./javascript%3Aalert%281%29" in hrefs
    assert all(href.startswith(("#", "./")) for href in hrefs)


def test_runs_are_folded_unless_there_is_only_one(report, reconnect):
    for count in (1, 2):
        runs = [run for run in Page(render_report([report] * count)).all("details") if "scenario" in run["class"]]
        assert ["open" in run for run in runs] == [count == 1] * count


def test_a_run_that_did_not_happen_is_not_judged(report):
    report.history = History()
    report.history.append(0, "scenario", "step", verb="connect", args="a, b")
    report.checks = check(report.history)
    report.verdict = Verdict.of(report.checks)
    page = Page(render_report([report]))
    assert "1 not judged" in page.text
    assert f"{len(INVARIANTS)} not judged" in page.text
    assert "✓" not in page.text
    assert Verdict.of(report.checks, "node a did not start") is Verdict.FAILED


def test_a_page_stays_small(report, monkeypatch):
    """Failed runs keep their charts; runs without charts name the command that shows them."""
    size_bytes = len(render_report([report]))
    monkeypatch.setattr("toolkit.report.html._MOST_DATA_BYTES", size_bytes // 2)
    worse = failed(replace(report))
    page = Page(render_report([report, report, report, worse]))
    assert page.values("s4-chart")["rows"]
    assert "s1-chart" not in page.ids
    assert "are omitted to keep the page small" in page.text


def test_a_page_is_never_in_memory_as_a_whole(report):
    for number in range(2_000):
        report.history.append(2, "a", "throttle", name="bytes", value=number, limit=0)
    lengths = [len(part) for part in report_parts([report])]
    assert max(lengths) < 0.6 * sum(lengths)  # chart and events are one part each


def test_data_is_read_before_the_first_part_is_written(report):
    body = {"link": "a/1", "session": 1, "tag": "ACK", "index": 0, "offset": 0, "length": 40, "fields": {}}
    report.history.append(2, "a", "frame", direction="tx", frame=3, **body)

    def failing():
        raise LocalError("the capture ends here")
        yield

    with pytest.raises(LocalError, match="the capture ends here"):
        report_parts([replace(report, frames=failing())])


def test_large_histories_leave_out_their_middle(report):
    for number in range(70_000):
        report.history.append(2, "a", "throttle", name="bytes", value=number, limit=0)
    report.checks = [
        CheckResult("INV-9", "Throttles", ok=False, violations=[Violation(45_000, f"v{n}") for n in range(60)])
    ]
    page = Page(render_report([report]))
    events = page.values("s1-events")
    assert len(events["rows"]) == 60_001
    assert events["gaps"] == [45_000, len(report.history) - 20_000]
    assert "v49" in page.text
    assert "v50" not in page.text
    assert "And 10 more." in page.text


def test_equal_runs_give_equal_bytes(report):
    assert render_report([report]) == render_report([report])


def test_a_peers_bytes_can_be_written(report):
    report.history.append(2, "a", "fault", session=1, link="a/1", reason="FRAME", detail="\udcff\x00\x1b[31m")
    text = render_report([report])
    assert "\x1b" not in text
    text.encode()


def test_report_without_runs_renders():
    assert "0 µs in total" in Page(render_report([])).text
