"""Leaves of many inputs those that make a parser do something the shorter ones do not.

What counts are the steps from line to line in the project's packages, and for each kind of input (its target's
label) the lines of the target itself, which tell values that came out from errors.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.target import Target

_ROOT = Path(__file__).parents[2]
_PACKAGES = (f"{_ROOT}/messenger/", f"{_ROOT}/toolkit/")
_TARGETS = f"{_ROOT}/tests/fuzz/targets/"
Step = tuple[CodeType, int, int, object]
"""From one line of a function to the next, and the order of magnitude of how often; in targets the label."""


def steps(target: Target, data: bytes) -> frozenset[Step]:
    """Return the steps that a run takes in the project's packages."""
    counted: Counter[tuple[CodeType, int, int]] = Counter()

    def enter(frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith((*_PACKAGES, _TARGETS)):
            return None
        last = 0

        def follow(inner: FrameType, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "line":
                counted[code, last, inner.f_lineno] += 1
                last = inner.f_lineno
            elif event == "exception":
                counted[code, last, -1] += 1
            return follow

        return follow

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        target.run(data)
    finally:
        sys.settrace(before)
    label = target.label(data)
    magnitude = bool if target.coarse else int.bit_length
    return frozenset(
        (code, start, stop, label if code.co_filename.startswith(_TARGETS) else magnitude(count))
        for (code, start, stop), count in counted.items()
    )


def minimised(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that are needed to reach all steps, shortest first."""
    seen: set[Step] = set()
    kept = []
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        new = steps(target, data) - seen
        if new:
            seen |= new
            kept.append(data)
    return kept
