"""Jobs for processes that run suites: a mutant, a suite, and which of its parts to run."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tests.mutations.mutant import ROOT, Mutant

_OVER_LIMIT = {-signal.SIGXCPU, -signal.SIGKILL}
"""What a process ends with that has used more time than it may."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of some parts."""

    mutant: Mutant | None
    parts: tuple[str, ...]
    """Which, in this order."""
    at_import: bool = False
    """Whether the mutated code runs as the messenger is imported."""
    enough: int = 1
    """Stop when so many have noticed the mutant; of a scenario's parts, only one counts."""
    budget_s: float = 1e9
    """Begin no part once so much processor time is used."""


class Process:
    """A process that has imported a suite, for any number of jobs, one at a time."""

    def __init__(self, suite: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process = _child(self._folder.name, suite, "serve")

    def close(self) -> None:
        """End it."""
        with suppress(BrokenPipeError), self._process as process:
            assert process.stdin is not None
            process.stdin.close()
        self._folder.cleanup()

    def lines_of(self, job: Job) -> Iterator[dict[str, Any]]:
        """Yield the results of a job.

        If a job ends early, the mutant has ended it in the part that it had begun: that is a result, too.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        done, begun = False, job.parts[0] if job.parts else ""
        for text in self._process.stdout:
            line = json.loads(text)
            if "ended" in line:
                if not done:
                    late = "TooLong: " if line["ended"] in _OVER_LIMIT else ""
                    what = f"{late}the process ended with {line['ended']}"
                    yield {"part": begun, "what": what, "used_s": 0.0}
                return
            done |= "done" in line
            if not done:
                begun = line["part"]
                yield line
        raise RuntimeError(f"the process for {job.mutant} has ended")


def surveyed(suite: str, parts: Sequence[str]) -> list[dict[str, Any]]:
    """Survey some parts of a suite."""
    with tempfile.TemporaryDirectory() as folder, _child(folder, suite, "survey") as process:
        text, _ = process.communicate(json.dumps(parts))
        rows = [json.loads(line) for line in text.splitlines()]
    if process.returncode:
        raise SystemExit(f"the survey of {suite} has ended with {process.returncode}")
    return rows


def _child(folder: str, *words: str) -> "subprocess.Popen[str]":
    """A process; what hypothesis finds goes to the folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.mutations.child", *words],
        cwd=ROOT,
        env=os.environ | {"MSGRLAB_STRICT": "1", "HYPOTHESIS_STORAGE_DIRECTORY": folder, "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
