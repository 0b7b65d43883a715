"""The directory of a running virtual machine: its journal, and files exchanged with the guest.

The process that runs the machine holds a lock on a file in the directory. A directory that is not locked was left
by a killed process; the next machine, or ``msgrlab down --all``, undoes it. QEMU itself dies with its parent.
"""

import contextlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Processes, Tree
from toolkit.machine.journal import Journal
from toolkit.machine.leases import state_root
from toolkit.machine.private import locked, make_private

_DIRECTORY = ".vm"
"""Directory below the state directory; no cluster can have this name."""
_LOCK = "lock"
_REGISTRY = ".registry"


@dataclass(frozen=True, slots=True)
class Place:
    """The directory of one virtual machine, and the label of its processes."""

    directory: Path
    label: str


def _root() -> Path:
    root = state_root()
    make_private(root, "state directory")
    make_private(root / _DIRECTORY, "state directory")
    return root / _DIRECTORY


@contextmanager
def place() -> Iterator[Place]:
    """Yield a directory for a virtual machine; all its changes of the host are undone at the end.

    Raises:
        LocalError: the state directory cannot be used, or a change cannot be undone.
    """
    sweep()
    root = _root()
    token = secrets.token_hex(4)
    directory = root / token
    with contextlib.ExitStack() as held:
        with locked(root / _REGISTRY):  # sweep() must not see the directory before its lock is held
            directory.mkdir(mode=0o700)
            held.enter_context(locked(directory / _LOCK))
        journal = Journal(directory)
        try:
            journal.note(Tree(str(directory)))
            label = f"vm.{token}"
            journal.note(Processes(label))
            yield Place(directory, label)
        finally:
            remains = journal.undo()
    if remains:
        raise LocalError("; ".join(remains))


def sweep() -> list[str]:
    """Undo what killed processes left of their virtual machines; returns what could not be undone."""
    remains: list[str] = []
    if not (state_root() / _DIRECTORY).is_dir():
        return remains
    root = _root()
    with locked(root / _REGISTRY):
        for directory in (each for each in root.iterdir() if each.is_dir()):
            name = directory.name.removeprefix(".").removesuffix(".removed")
            with contextlib.suppress(BlockingIOError, FileNotFoundError), locked(directory / _LOCK, wait=False):
                journal = Journal(root / name)
                if not journal.path.exists():  # killed before the first line, or while the directory was removed
                    Tree(str(directory)).undo()
                remains += journal.undo()
    return remains
