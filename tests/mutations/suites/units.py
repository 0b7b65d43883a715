"""The unit tests of the messenger, but those that need real daemons."""

import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.mutations.code import digest_of
from tests.mutations.mutant import ROOT
from tests.mutations.suites import Watch
from tests.mutations.suites.clock import at_most_s

_FOLDER = ROOT / "tests" / "messenger"
_TEST_LIMIT_S = 300
"""Of a test that waits for what a mutant keeps from coming; generous, since machines may be busy."""
_TEST_CPU_LIMIT_S = 30
"""Of a test that a mutant keeps busy for ever, in processor time."""
_NOTHING = """
from hypothesis import given, strategies

@given(strategies.none())
def test_nothing(nothing): ...
"""
"""A test that has hypothesis look through the modules that are loaded, as it does once for a process."""


def parts() -> list[str]:
    """The test files; those of a survey are their tests."""
    return [path.relative_to(ROOT).as_posix() for path in sorted(_FOLDER.rglob("test_*.py"))]


def digest(part: str) -> str:
    """Return the digest of the file."""
    return _digest(part.partition("::")[0])


@cache
def _digest(file: str) -> str:
    return digest_of([(ROOT / file).read_text(encoding="utf-8")])


def warm() -> None:
    """Load pytest's plugins, the fixtures and hypothesis, so that forks of this process need not."""
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder) / "test_nothing.py"
        nothing.write_text(_NOTHING, encoding="utf-8")
        where = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", str(ROOT / "tests" / "mutations")]
        pytest.main(["-qq", "--collect-only", "-p", "no:cacheprovider", *where, str(nothing)])


class _Plugin:
    """Runs the tests that are chosen, in that order, and reports failures."""

    def __init__(self, chosen: list[str], watch: Watch) -> None:
        self._order = {name: number for number, name in enumerate(chosen)}
        self._watch = watch

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what is not chosen; a file whose chosen tests are not there is run whole."""
        there = {item.nodeid for item in items}
        lost = {name.partition("::")[0] for name in self._order if name not in there}
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order or item.nodeid.partition("::")[0] in lost),
            key=lambda item: self._order.get(item.nodeid, len(self._order)),
        )

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if self._watch.begin(item.nodeid):
            return None
        item.session.shouldstop = "enough"
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        with at_most_s(_TEST_CPU_LIMIT_S):
            yield

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._watch.notice(report.nodeid, "cannot be imported")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            late = any(words in report.longreprtext for words in ("Timeout (", "Timeout >", "TooLong"))
            self._watch.notice(report.nodeid, "TooLong" if late else "fails")


def play(chosen: Iterable[str], watch: Watch) -> None:
    """Run tests, or whole files."""
    names = list(chosen)
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    options = ["-qq", "-m", "not needs", f"--timeout={_TEST_LIMIT_S}", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *files], plugins=[_Plugin(names, watch)])
    if code in {pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR}:
        watch.notice(names[0], f"pytest ended with {pytest.ExitCode(code).name}")
