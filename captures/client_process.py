"""A program of the captured release that does one step for each line that it reads."""

import subprocess
from types import TracebackType
from typing import Self

_TIMEOUT_S = 60.0


class ClientProcess:
    """A Python program that prints a line after each step. It ends with the ``with`` block.

    Args:
        program: its text.
        arguments: its arguments.
    """

    def __init__(self, program: str, *arguments: str) -> None:
        command = ["python3", "-c", program, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate(timeout=_TIMEOUT_S)

    def start(self, step: str) -> None:
        """Start a step."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until the step is done."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the client ended")

    def do(self, step: str) -> None:
        """Do a step, and wait until it is done."""
        self.start(step)
        self.wait()
