"""Reports of tests: last events, kept files, the command that repeats the test; skips, and strict runs."""

import re
import shlex
from collections.abc import Generator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from messenger.errors import LocalError, MsgrError
from toolkit.errors import Unsupported
from toolkit.pytest_plugin.evidence import TEMPORARY, Evidence, evidence_of
from toolkit.pytest_plugin.needs import IsMissing
from toolkit.pytest_plugin.options import options_of

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_LONGEST_NAME = 100
_LIBRARY = (f"{Path(__file__).parents[1]}/", f"{Path(__file__).parents[2] / 'messenger'}/")
"""Folders whose frames are omitted from tracebacks."""
_Making = Generator[None, pytest.TestReport, pytest.TestReport]
_FOLDER: pytest.StashKey[Path] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After a test has passed, fail it if its evidence violates invariants."""
    done = yield
    found = [f"{one.title}: {line}" for one in evidence_of(item) if one.checked for line in one.new_violations()]
    if found:
        pytest.fail("invariants are violated\n" + "\n".join(found), pytrace=False)
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> _Making:
    """Add the evidence of a test to its report, and turn skips into failures in strict runs."""
    is_ours = any(name.startswith("msgrlab_") for name in getattr(item, "fixturenames", ()))
    if is_ours and call.excinfo is not None:
        _shorten(item, call)
    report = yield
    if report.skipped and call.excinfo is not None and isinstance(call.excinfo.value, IsMissing):
        _judge_skip(item, report)
    options = options_of(item.config)
    ended = call.when == "call" or (call.when == "setup" and report.failed)
    if ended and evidence_of(item) and (report.failed or options.keep == "all"):
        _show(item, report)
    return report


def _shorten(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Turn an Unsupported error into a skip; end the traceback of another msgrlab error in the user's code."""
    assert call.excinfo is not None
    error = call.excinfo.value
    if isinstance(error, Unsupported):
        words = f"{error}; `msgrlab doctor` lists what this machine offers"
        skip = pytest.CallInfo.from_call(lambda: _skip(words), call.when)
        call.excinfo = skip.excinfo
    elif isinstance(error, MsgrError) and not item.config.getoption("fulltrace"):
        entry, last = error.__traceback__, None
        while entry is not None:
            if not entry.tb_frame.f_code.co_filename.startswith(_LIBRARY):
                last = entry
            entry = entry.tb_next
        if last is not None:
            last.tb_next = None


def _skip(words: str) -> None:
    raise IsMissing(words, _use_item_location=True)


def _judge_skip(item: pytest.Item, report: pytest.TestReport) -> None:
    if options_of(item.config).strict and isinstance(report.longrepr, tuple):
        path, _, _ = item.location
        report.outcome = "failed"
        report.longrepr = f"{path}: {report.longrepr[2]}\nWith --msgrlab-strict this is a failure."


# ---- evidence


def _show(item: pytest.Item, report: pytest.TestReport) -> None:
    options = options_of(item.config)
    again = shlex.join(["pytest", _node_id(item), *options.words])
    properties: dict[str, str] = {"msgrlab_seed": str(options.seed), "msgrlab_again": again}
    extras: list[dict[str, Any]] = []
    some_wrong = any(one.is_wrong for one in evidence_of(item))
    for number, one in enumerate(evidence_of(item)):
        files = {} if options.keep == "none" else _saved(item, one)
        text = one.text(files, brief=some_wrong and not one.is_wrong)
        properties |= _properties(one, files, f"_{number}" if number else "")
        if report.failed:
            report.sections.append((f"msgrlab: {one.title}", text))
            extras += _extras(one, text)
    if report.failed:
        report.sections.append(("msgrlab: this test again", again))
    report.user_properties += properties.items()
    item.user_properties += properties.items()  # of the report of the teardown, which JUnit's writer reads
    if extras and item.config.pluginmanager.has_plugin("html"):
        report.extras = [*getattr(report, "extras", ()), *extras]  # type: ignore[attr-defined]


def _node_id(item: pytest.Item) -> str:
    """Return the test's id for a command line, without the group that xdist appends."""
    group = item.get_closest_marker("xdist_group")
    name = (group.args or (group.kwargs.get("name"),))[0] if group else None
    return item.nodeid.removesuffix(f"@{name}") if name else item.nodeid


def _properties(one: Evidence, files: Mapping[str, Path], tail: str) -> dict[str, str]:
    """Return the JUnit properties of a piece of evidence."""
    violated = [result.id for result in one.seen.checks if not result.ok]
    found = {"of": one.title, "violated": " ".join(violated), "replay": one.replay}
    found["kept"] = str(next(iter(files.values())).parent) if files else ""
    return {f"msgrlab_{name}{tail}": value for name, value in found.items() if value}


def _extras(one: Evidence, text: str) -> list[dict[str, Any]]:
    """Return the chart and the text that pytest-html shows in the row of the test."""
    from toolkit.report.sequence import SequenceChart  # noqa: PLC0415 - only failures pay for it

    shown = {"name": f"msgrlab: {one.title}", "format_type": "text", "content": text}
    extras: list[dict[str, Any]] = [{**shown, "mime_type": "text/plain", "extension": "txt"}]
    if len(one.seen.history):
        chart = f"<div>{SequenceChart(one.seen.history).svg()}</div>"
        extras.append(
            {"name": None, "format_type": "html", "content": chart, "mime_type": None, "extension": None}
        )
    return extras


def _saved(item: pytest.Item, one: Evidence) -> dict[str, Path]:
    """Keep the files of a piece of evidence; what prevents that is a note, and the other tests are run."""
    try:
        folder = _new_folder(_folder(item), _NOT_IN_NAMES.sub("_", one.title))
        return dict(one.save(folder))
    except (LocalError, OSError) as error:
        one.notes.append(f"not kept: {error}")
        return {}


def _folder(item: pytest.Item) -> Path:
    """Return the folder of a test's kept files; created when the first file is kept."""
    if _FOLDER not in item.stash:
        out = options_of(item.config).out
        name = _NOT_IN_NAMES.sub("_", _node_id(item))[-_LONGEST_NAME:].lstrip("._-")
        item.stash[_FOLDER] = _new_folder(out or item.config.stash[TEMPORARY] / "msgrlab", name)
    return item.stash[_FOLDER]


def _new_folder(above: Path, name: str) -> Path:
    """Create a new folder, with a number if the name exists: workers share the directory above it."""
    above.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = above / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("count() has no end")
