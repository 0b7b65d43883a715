"""Waiting for a state of the recorded cluster."""

import time
from collections.abc import Callable

_TIMEOUT_S = 60.0
_POLL_S = 0.05


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until ``holds`` returns True; raises RuntimeError after a minute."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise RuntimeError("the cluster did not get there")
        time.sleep(_POLL_S)
