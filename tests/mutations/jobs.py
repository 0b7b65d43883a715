"""Jobs for processes of their own: a mutant, a suite, and which of its parts to run."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
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
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutations.child"],
            cwd=ROOT,
            env=os.environ
            | {"MSGRLAB_STRICT": "1", "HYPOTHESIS_STORAGE_DIRECTORY": folder, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=nowhere,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.close()
        begun = job.parts[0] if job.parts else ""
        done = False
        for text in process.stdout:
            line = json.loads(text)
            done |= "done" in line
            if not done:
                begun = line["part"]
                yield line
        code = process.wait(_LIMIT_S)
    if not done:
        yield {"part": begun, "what": f"the process ended with {code}"}
