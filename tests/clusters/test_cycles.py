"""Clusters that start and end repeatedly use no more and more of the machine's or the process's resources.

MSGRLAB_CYCLES is the number of repetitions.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.clusters import environment, remains, state
from tests.support.machine_state import Apart

__all__ = ["state"]

CYCLES = int(os.environ.get("MSGRLAB_CYCLES", "4"))
GROWTH_BLOCKS = 1000
"""Of Python's memory, in all: what is kept of each of a hundred clusters would be more."""
GROWTH_KIB = 256
"""Of memory that libraries hold, in all."""


@pytest.mark.needs("iproute2")
@pytest.mark.parametrize(
    "backend",
    [
        "process",
        pytest.param("netns", marks=pytest.mark.needs("netns", "nft")),
        pytest.param("docker", marks=pytest.mark.needs("docker", "netns")),
    ],
)
@pytest.mark.timeout(60 + 20 * CYCLES)
def test_repeated_up_and_down_leaks_nothing(backend: str, state: Path) -> None:
    with ExitStack() as stack:
        # Docker's networks are where its engine is
        entering = [] if backend == "docker" or os.geteuid() else stack.enter_context(Apart()).entering
        done = subprocess.run(
            [*entering, sys.executable, "-m", "tests.support.cycles", backend, str(CYCLES)],
            env=environment(),
            stdout=subprocess.PIPE,
            check=True,
        )
    result = json.loads(done.stdout)
    sys.stderr.write(f"{CYCLES} cycles on {backend}: {json.dumps(result)}\n")
    assert result["left"] == []
    assert backend == "docker" or result["changes"] == []
    before, after = result["before"], result["after"]
    assert (after["descriptors"], after["threads"]) == (before["descriptors"], before["threads"])
    assert after["python_blocks"] - before["python_blocks"] < GROWTH_BLOCKS
    assert after["malloc_kib"] - before["malloc_kib"] < GROWTH_KIB
    assert remains(state) == []
