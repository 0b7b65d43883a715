"""Making an image: one at a time, with everything that is said in a log, and nothing half-made left behind."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Tree
from toolkit.machine.private import locked

Tell = Callable[[str], None]
"""Told in a few words what is being done, for whoever waits."""


class ProgramFailed(LocalError):
    """A program that makes an image has failed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output
        """What it has printed."""


def silent(_what: str) -> None:
    """Whoever waits does not want to know."""


class Work:
    """Programs that make an image; what they say goes into a log.

    Args:
        log: file that is written anew.
        tell: told the last line of what they say.
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
    """Nobody else on this machine makes what is to be at ``path`` meanwhile; wait for whoever does.

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
