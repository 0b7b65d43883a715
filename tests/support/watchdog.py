"""The end of a test that nothing else ends.

pytest-timeout raises in the test that is late, once. A teardown that hangs then, or code that swallows what was
raised, would hold up the run for ever. Then the process is ended: xdist names the test that it ran, and goes on in
a new one.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Iterator

import pytest

_EXIT_CODE = 70


_GRACE_S = 120.0
"""For what pytest-timeout begins to end."""


class Watchdog:
    """Ends this process when one test with its fixtures takes longer than ``limit_s``, and shows all stacks.

    A test with a timeout of its own has at least that, and some time to end.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._due: float | None = None
        self._test, self._of_s = "", limit_s
        self._stderr = os.dup(2)  # before pytest captures it
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        own = item.get_closest_marker("timeout")
        limit_s = self._limit_s if own is None else max(self._limit_s, own.args[0] + _GRACE_S)
        with self._changed:
            self._test, self._of_s, self._due = item.nodeid, limit_s, time.monotonic() + limit_s
        try:
            return (yield)
        finally:
            with self._changed:
                self._due = None

    def _watch(self) -> None:
        with self._changed:
            while True:
                self._changed.wait(min(5, self._limit_s))
                if self._due is not None and time.monotonic() > self._due:
                    self._end()

    def _end(self) -> None:
        os.write(self._stderr, f"\n{self._test} has not ended after {self._of_s:.0f} s:\n".encode())
        faulthandler.dump_traceback(self._stderr)
        os._exit(_EXIT_CODE)
