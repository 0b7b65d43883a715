"""JUnit XML: what CI systems count and show."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from toolkit.checks.history import History
from toolkit.checks.result import CheckResult, Violation
from toolkit.report.html import ScenarioReport, Verdict
from toolkit.report.junit import render_junit


@pytest.fixture
def passed() -> ScenarioReport:
    checks = [CheckResult("INV-1", "Lossless delivery", ok=True, violations=[])]
    took_s = 0.5
    return ScenarioReport(
        "Cut",
        "reconnect",
        "",
        "sim",
        "v2-crc",
        7,
        Verdict.PASSED,
        took_s,
        checks,
        History(),
        "msgrlab run reconnect",
    )


def test_every_verdict_is_counted_once(passed: ScenarioReport) -> None:
    wrong = CheckResult(
        "INV-1", "Lossless delivery", ok=False, violations=[Violation(3, "tid 2 \x1b never <came>")]
    )
    runs = [
        passed,
        replace(passed, verdict=Verdict.FAILED, checks=[wrong], reason="expected 20 messages"),
        replace(passed, verdict=Verdict.UNSUPPORTED, reason="no /dev/kvm"),
        replace(passed, verdict=Verdict.NOT_JUDGED),
        replace(passed, verdict=None),
    ]
    root = ET.fromstring(render_junit(runs, "nightly"))
    (suite,) = root
    assert suite.attrib == {
        "name": "nightly",
        "tests": "4",
        "failures": "1",
        "errors": "0",
        "skipped": "2",
        "time": "2.000",
    }
    first, second, third, fourth = suite
    assert first.attrib == {"classname": "msgrlab.sim.v2-crc", "name": "reconnect seed 7", "time": "0.500"}
    assert [each.tag for each in first] == ["system-out"]
    failure = second.find("failure")
    assert failure is not None
    assert failure.get("message") == "expected 20 messages"
    assert failure.text == "expected 20 messages\nINV-1: tid 2 \ufffd never <came>"
    skipped = [case.find("skipped") for case in (third, fourth)]
    assert [each.get("message") for each in skipped if each is not None] == ["no /dev/kvm", "not judged"]
