"""The program of a supervisor, which imports its modules before its cluster is known.

``msgrlab up`` starts it first and then reads its own command line, so that both import at the same time. The
program has no label, lease or log until it receives its parameters; if its input ends before, it exits.
"""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from toolkit.machine.interpreters import PYTHON, environment
from toolkit.machine.labels import BLANK, PROCESS_VARIABLE

LOG = "supervisor.log"
"""File in the cluster's directory that has what its supervisor prints."""


class Program:
    """A running program of a supervisor.

    Attributes:
        process: the program, with pipes for its input and its output.
    """

    def __init__(self) -> None:
        self._errors = os.fdopen(os.memfd_create("supervisor"), "rb+", buffering=0)
        self.process = subprocess.Popen(
            [*PYTHON, "-m", "toolkit.cluster.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.fileno(),
            env={**environment(), PROCESS_VARIABLE: BLANK},
            cwd="/",
            start_new_session=True,
        )

    def begin(self, wanted: dict[str, Any]) -> None:
        """Send its parameters (see ``__main__``); a program that has ended is noticed by its output's end."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(wanted).encode() + b"\n")
            self.process.stdin.flush()

    def close(self) -> None:
        """Close its input and its output; it takes its cluster down if that is not ready."""
        for file in (self.process.stdin, self.process.stdout, self._errors):
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()

    def discard(self) -> None:
        """End a program that has received no parameters."""
        self.process.kill()
        self.process.wait()
        self.close()

    def last_words(self, log: Path) -> str:
        """Wait for its end, and return the last line of its log, or of what it printed before it had one."""
        self.process.wait()
        with contextlib.suppress(OSError):
            if lines := log.read_text(errors="replace").strip().splitlines():
                return lines[-1]
        self._errors.seek(0)
        printed = self._errors.read().decode(errors="replace")
        return printed.strip().rpartition("\n")[2] or "its supervisor printed nothing"
