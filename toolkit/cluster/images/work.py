"""Making an image: one at a time, with all output in a log; a failure leaves no partial image behind."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Tree
from toolkit.machine.private import locked

Tell = Callable[[str], None]
"""Callback that gets each step in a few words."""


class ProgramFailed(LocalError):
    """A program that makes an image has failed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output
        """What it has printed."""


def silent(_what: str) -> None:
    """Report no progress."""


class Work:
    """Programs that make an image; their output goes into a log.

    Args:
        log: file that is overwritten.
        tell: called with the last line of their output.
    """

    def __init__(self, log: Path, tell: Tell = silent) -> None:
        self.log = log
        self.tell = tell
        log.write_bytes(b"")

    def run(self, *command: str) -> str:
        """What a program prints.

        Raises:
            ProgramFailed: it failed; where to read why.
        """
        self.note(f"$ {' '.join(command)}")
        said = []
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running:
            assert running.stdout is not None
            try:
                for line in running.stdout:
                    said.append(line)
                    self.note(line.rstrip())
            except BaseException:
                running.kill()
                raise
        if running.returncode:
            why = self.failed(f"{command[0]} ended with exit code {running.returncode}")
            raise ProgramFailed(str(why), "".join(said))
        return "".join(said)

    def note(self, line: str) -> None:
        """A line for the log."""
        if line:
            with self.log.open("a") as out:
                out.write(line + "\n")
            self.tell(line)

    def failed(self, what: str) -> LocalError:
        """The error for what went wrong."""
        return LocalError(f"{what}; what was said is in {self.log}")


@contextmanager
def alone(path: Path, say: Tell) -> Iterator[None]:
    """Hold the lock on making ``path`` on this machine; wait for another process that makes it.

    Raises:
        LocalError: nothing can be written there.
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
            say(f"{path.name} is being made already: waiting")
            holding.enter_context(locked(lock))
        yield


@contextmanager
def whole(directory: Path) -> Iterator[Path]:
    """A directory under another name until it is whole; only one process at a time may make it.

    Whatever ends this early removes it; what SIGKILL leaves, the next attempt removes.
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
