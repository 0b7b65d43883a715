"""Waiting for what must come, as long as it may take on a machine that is busy."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0
_PAUSE_S = 0.01


def eventually(
    condition: Callable[[], object], patience_s: float = PATIENCE_S, why: Callable[[], object] = lambda: None
) -> None:
    """Wait until the condition holds; ``why`` describes the state if it does not hold in time."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_s, why()
        time.sleep(_PAUSE_S)
