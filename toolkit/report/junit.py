"""Verdicts as JUnit XML for CI systems."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from toolkit.report.html import GENERATOR, ScenarioReport, Verdict
from toolkit.report.text import printable

_SKIPPED = {Verdict.NOT_JUDGED: "not judged", Verdict.UNSUPPORTED: "unsupported"}


def render_junit(reports: Sequence[ScenarioReport], title: str = "msgrlab") -> str:
    """Render a test suite with a test case for each run that has a verdict.

    A violated invariant is a failure of its case. A run that was not judged, or is unsupported, is skipped.

    Args:
        reports: the runs.
        title: name of the suite.
    """
    judged = [report for report in reports if report.verdict is not None]
    counts = {
        "tests": len(judged),
        "failures": sum(report.verdict is Verdict.FAILED for report in judged),
        "errors": 0,
        "skipped": sum(report.verdict in _SKIPPED for report in judged),
        "time": _seconds(sum(report.duration_s for report in judged)),
    }
    numbers = {name: str(value) for name, value in counts.items()}
    root = Element("testsuites", {"name": GENERATOR, **numbers})
    suite = SubElement(root, "testsuite", {"name": printable(title), **numbers})
    for report in judged:
        _add_case(suite, report)
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _add_case(suite: Element, report: ScenarioReport) -> None:
    place = ".".join(filter(None, (GENERATOR, report.backend, report.mode)))
    seed = "" if report.seed is None else f" seed {report.seed}"
    took = _seconds(report.duration_s)
    case = SubElement(
        suite, "testcase", classname=printable(place), name=printable(f"{report.id}{seed}"), time=took
    )
    if report.verdict is Verdict.FAILED:
        lines = [f"{check.id}: {one.text}" for check in report.checks for one in check.violations]
        lines = [report.reason, *lines] if report.reason else lines
        failure = SubElement(case, "failure", message=printable(lines[0] if lines else "failed"), type="violation")
        failure.text = printable("\n".join(lines))
    elif report.verdict in _SKIPPED:
        reason = report.reason or "; ".join(dict.fromkeys(check.note for check in report.checks if check.note))
        SubElement(case, "skipped", message=printable(reason or _SKIPPED[report.verdict]))
    if report.replay_command:
        SubElement(case, "system-out").text = printable(f"again: {report.replay_command}")


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
