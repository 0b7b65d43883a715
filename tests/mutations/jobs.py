"""Jobs for processes of their own: a mutant, a suite, and which of its parts to run."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from threading import Timer
from typing import Any

from tests.mutations.mutant import ROOT, Mutant

_LIMIT_S = 3600
"""Of a whole job; single parts have limits of their own."""


@dataclass(frozen=True, slots=True)
class Job:
    """One process."""

    mutant: Mutant | None
    suite: str
    parts: tuple[str, ...] | None
    """Which, in this order; None: survey all."""
    deep: bool = False


def lines_of(job: Job) -> Iterator[dict[str, Any]]:
    """What the process says, line by line.

    One that ends before it is done has died of the mutant, in the part that it had begun: that is a line as well.
    """
    mutant = None if job.mutant is None else asdict(job.mutant)
    request = json.dumps({"mutant": mutant, "suite": job.suite, "parts": job.parts, "deep": job.deep})
    done, begun = False, job.parts[0] if job.parts else ""
    with tempfile.TemporaryDirectory() as folder, _child(folder) as process:
        limit = Timer(_LIMIT_S, process.kill)
        limit.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with process.stdin as stdin:
                stdin.write(request)
            for text in process.stdout:
                line = json.loads(text)
                done |= "done" in line
                if not done:
                    begun = line["part"]
                    yield line
        finally:
            limit.cancel()
    if not done:
        yield {"part": begun, "what": f"the process ended with {process.returncode}"}


def _child(folder: str) -> "subprocess.Popen[str]":
    """A process that waits for its job; what hypothesis finds goes to the folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.mutations.child"],
        cwd=ROOT,
        env=os.environ | {"MSGRLAB_STRICT": "1", "HYPOTHESIS_STORAGE_DIRECTORY": folder, "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
