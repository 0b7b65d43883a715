"""The unit tests of the messenger, but those that need real daemons."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest

from tests.mutations.mutant import ROOT

_FOLDER = ROOT / "tests" / "messenger"
_TEST_LIMIT_S = 60


def parts() -> dict[str, str]:
    """The test files."""
    return {
        path.relative_to(ROOT).as_posix(): sha256(path.read_bytes()).hexdigest()[:8]
        for path in sorted(_FOLDER.rglob("test_*.py"))
    }


class _Watcher:
    """Remembers the first failure."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"{report.nodeid}::cannot be imported"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def play(chosen: Sequence[str], *, deep: bool) -> Iterator[tuple[str, str]]:
    """Run the tests of these files, in this order, until one fails."""
    options = [
        "-x",
        "-qq",
        "-m",
        "not needs",
        f"--timeout={_TEST_LIMIT_S}",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    watcher = _Watcher()
    yield chosen[0], ""
    code = pytest.main([*options, *chosen], plugins=[watcher])
    if watcher.failed:
        file, _, test = watcher.failed.partition("::")
        yield file, test
    elif code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        yield chosen[0], f"pytest ended with {pytest.ExitCode(code).name}"
