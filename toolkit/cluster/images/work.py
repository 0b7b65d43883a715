"""Builds of images: one at a time, with all output in a log; a failed build leaves no partial image."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Tree
from toolkit.machine.private import locked

Report = Callable[[str], None]
"""Callback that gets a short description of each step."""


class ProgramFailed(LocalError):
    """A program of an image's build has failed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output
        """Its output."""


def silent(_what: str) -> None:
    """Report no progress."""


class Work:
    """Runs the programs of a build; their output goes to a log.

    Args:
        log: path of the log; an existing file is overwritten.
        report: called with the last line of their output.
    """

    def __init__(self, log: Path, report: Report = silent) -> None:
        self.log = log
        self.report = report
        log.write_bytes(b"")

    def run(self, *command: str) -> str:
        """Run a program and return its output.

        Raises:
            ProgramFailed: it failed; the message names the log.
        """
        self.note(f"$ {' '.join(command)}")
        output = []
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running:
            assert running.stdout is not None
            try:
                for line in running.stdout:
                    output.append(line)
                    self.note(line.rstrip())
            except BaseException:
                running.kill()
                raise
        if running.returncode:
            why = self.failed(f"{command[0]} ended with exit code {running.returncode}")
            raise ProgramFailed(str(why), "".join(output))
        return "".join(output)

    def note(self, line: str) -> None:
        """Write a line to the log."""
        if line:
            with self.log.open("a") as out:
                out.write(line + "\n")
            self.report(line)

    def failed(self, what: str) -> LocalError:
        """Return an error that names the log."""
        return LocalError(f"{what}; what was said is in {self.log}")


@contextmanager
def alone(path: Path, announce: Report) -> Iterator[None]:
    """Lock the build of ``path`` on this machine; waits while another process builds it.

    Raises:
        LocalError: its parent cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"{path.parent}: {error.strerror}; --root names another directory") from None
    lock = path.parent / f".{path.name}.lock"
    with ExitStack() as holding:
        try:
            holding.enter_context(locked(lock, wait=False))
        except BlockingIOError:
            announce(f"{path.name} is being made already: waiting")
            holding.enter_context(locked(lock))
        yield


@contextmanager
def whole(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory that becomes ``directory`` if the block succeeds; for one process at a time.

    If the block fails, the directory is removed; one that a killed process left is removed by the next attempt.
    """
    unfinished = directory.with_name(f".{directory.name}.unfinished")
    _remove(unfinished)
    try:
        unfinished.mkdir(mode=0o755)
        yield unfinished
        _remove(directory)
        unfinished.rename(directory)
    except BaseException:
        _remove(unfinished)
        raise


def _remove(directory: Path) -> None:
    Tree(str(directory)).undo()
