"""Capabilities that tests need: the skips of the plugin, and the sum of all skips at the end of a run."""

from collections import Counter

import pytest

from toolkit.doctor import catalogue
from toolkit.machine.capability import install_command, survey
from toolkit.pytest_plugin.needs import REMEDY, CannotBeAdded, require

__all__ = ["CannotBeAdded", "NotRun", "require"]


class NotRun:
    """Prints, after all tests, the number of skipped tests by reason, and ``msgrlab doctor``'s command."""

    @staticmethod
    def note(report: pytest.TestReport | pytest.CollectReport, skip: pytest.skip.Exception) -> None:
        """Keep the reason of a skip in its report, which xdist sends from the worker to the main process."""
        report.not_run = str(skip.msg)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reasons = [report.not_run.partition(REMEDY) for report in terminalreporter.stats.get("skipped", ())]
        if not reasons:
            return
        terminalreporter.section("not run")
        for what, count in Counter(what for what, _, _ in reasons).most_common():
            terminalreporter.write_line(f"{count:6}  {what}")
        if any(remedy for _, _, remedy in reasons):
            command = install_command([finding for _, finding in survey(catalogue.CAPABILITIES)])
            terminalreporter.write_line(f"\nTo install what is missing:\n\n  {command}\n")
