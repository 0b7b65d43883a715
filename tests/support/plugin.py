"""The pytest plugin of the checkout, in a session of its own."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.clusters import ROOT


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty directory, and pytest without the plugins that are installed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("MSGRLAB_STRICT", raising=False)
    return pytester


def run_tests(session: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """Run the tests of a text with the plugin, as test_it.py, in a process of their own."""
    session.makepyfile(test_it=text)
    return session.runpytest_subprocess("-p", "toolkit.pytest_plugin", "-p", "no:cacheprovider", *options)


def run_in(session: pytest.Pytester, directory: Path, *options: str) -> pytest.RunResult:
    """Run the tests of a directory with the plugin, in a process of their own."""
    os.chdir(directory)  # the session goes back at its end
    return session.run(
        sys.executable, "-m", "pytest", "-p", "toolkit.pytest_plugin", "-p", "no:cacheprovider", *options
    )
