"""Leases: the names and numbers of this machine's clusters.

Every cluster has a directory below :func:`state_root`. The process that keeps a cluster up holds a lock on a file
in it, which the kernel releases when that process ends; a directory that is not locked was left by a crash. No
other user can read or change these directories.
"""

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine import numbers
from toolkit.machine.changes import Processes, Tree
from toolkit.machine.journal import FILE_NAME, LABEL_FILE, Journal
from toolkit.machine.labels import Label, check_name, is_name
from toolkit.machine.private import DIRECTORY_MODE, check_private, locked, make_private, write_private

STATE_VARIABLE = "MSGRLAB_STATE"
"""Environment variable that names another directory for the state of clusters."""
_LOCK_FILE = "lock"
_WHAT = "state directory"
_UNFINISHED = re.compile(r"\.[a-z][a-z0-9-]{0,29}\.[0-9]+")
_REMOVED = re.compile(r"\.([a-z][a-z0-9-]{0,29})\.removed")
_LAB = re.compile("lab-[0-9a-f]{12}")
_NUMBER = re.compile("[0-9]{1,3}")
_TOKEN = re.compile("[0-9a-f]{8}")
_FIRST_FILES = frozenset({LABEL_FILE, FILE_NAME})


def state_root() -> Path:
    """Return the parent of all clusters' directories; the path is short, because sockets lie below it.

    Raises:
        LocalError: the path that the variable names is no printable text: records of clusters are lines of text.
    """
    if named := os.environ.get(STATE_VARIABLE):
        path = Path(named).absolute()
        if not str(path).isprintable():
            raise LocalError(f"{STATE_VARIABLE} = {str(path)!r}: give a path of printable characters")
        return path
    if os.geteuid() == 0:
        return Path("/run/msgrlab")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "msgrlab" if runtime else Path(tempfile.gettempdir()) / f"msgrlab-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A cluster's name, number and directory."""

    label: Label
    directory: Path
    journal: Journal

    @classmethod
    def take(cls, name: str) -> "Lease":
        """Take the name for a new cluster; its journal starts with its directory and its processes.

        Raises:
            LocalError: the name is invalid, a cluster of that name is up or has left something behind, or other
                users can access the state directory.
        """
        check_name(name)
        with _registry() as root, numbers.exclusively() as machine:
            directory = root / name
            if directory.exists():
                raise LocalError(f"a cluster {name!r} exists already: msgrlab down {name}, or give --name")
            number = machine.free({lease.label.number for lease in leases()})
            if number is None:
                raise LocalError(f"{numbers.NUMBERS} clusters are up already: msgrlab down --all")
            lease = cls(Label(name, number, os.urandom(4).hex()), directory, Journal(directory))
            machine.give(number, numbers.Holder(directory, lease.label.token))
            lease._make_directory()
            return lease

    def _make_directory(self) -> None:
        """Make the cluster's directory, under a temporary name until it has its label and its journal.

        Raises:
            LocalError: it cannot be written; nothing of it remains.
        """
        unfinished = self.directory.with_name(f".{self.label.name}.{os.getpid()}")
        try:
            unfinished.mkdir(mode=DIRECTORY_MODE)
            write_private(
                unfinished / LABEL_FILE, f"{self.label.name} {self.label.number} {self.label.token}\n".encode()
            )
            journal = Journal(unfinished)
            journal.note(Tree(str(self.directory)))
            journal.note(Processes(str(self.label)))
            unfinished.rename(self.directory)
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if isinstance(error, OSError):
                raise LocalError(f"{unfinished}: {error.strerror}") from None
            raise

    @classmethod
    def find(cls, name: str) -> "Lease":
        """Return the lease of an existing cluster.

        Raises:
            LocalError: there is no cluster of that name, or its directory is damaged.
        """
        check_name(name)
        found, broken = _survey()
        for lease in found:
            if lease.label.name == name:
                return lease
        for each in broken:
            if each.name == name:
                raise LocalError(str(each))
        known = ", ".join(lease.label.name for lease in found)
        raise LocalError(f"no cluster {name!r}; {f'there is {known}' if known else 'none is up'}")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for the duration of a ``with`` block: this process keeps the cluster up.

        Raises:
            LocalError: another process holds it.
            FileNotFoundError: the cluster's directory does not exist.
        """
        try:
            with locked(self.directory / _LOCK_FILE, wait=False):
                yield
        except BlockingIOError:
            raise LocalError(f"cluster {self.label.name!r} is run by another process") from None

    @property
    def is_held(self) -> bool:
        """True if a process keeps the cluster up."""
        try:
            with self.held():
                return False
        except LocalError:
            return True
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class Damaged:
    """A cluster's directory whose label cannot be read."""

    name: str
    directory: Path
    why: str

    def __str__(self) -> str:
        return f"cluster {self.name!r} is damaged: {self.directory / LABEL_FILE}: {self.why}"


def leases() -> list[Lease]:
    """Return all clusters of this state directory, in any state, by name; damaged ones are left out.

    Raises:
        LocalError: other users can access the state directory.
    """
    return _survey()[0]


def lab_name() -> str:
    """Return a name for the temporary cluster of one process, such as the hosts of a scenario."""
    return f"lab-{secrets.token_hex(6)}"


def clusters() -> list[Lease]:
    """Return the leases without labs that a process uses now; labs left by a crash are included."""
    return [lease for lease in leases() if not (_LAB.fullmatch(lease.label.name) and lease.is_held)]


def damaged() -> list[Damaged]:
    """Return the clusters of this state directory whose labels cannot be read; raises as :func:`leases` does."""
    return _survey()[1]


def sweep() -> list[str]:
    """Complete interrupted removals, and remove directories of leases that were not completed.

    Returns:
        A line for each thing that could not be removed.
    """
    remains = []
    with _registry() as root:
        entries = [path for path in root.iterdir() if path.is_dir()]
        for path in entries:  # no other process is taking a lease now
            if _UNFINISHED.fullmatch(path.name) and {each.name for each in path.iterdir()} <= _FIRST_FILES:
                shutil.rmtree(path)
    for directory in [root / found[1] for path in entries if (found := _REMOVED.fullmatch(path.name))]:
        if not directory.exists():
            remains += Journal(directory).undo()
    return remains


def _survey() -> tuple[list[Lease], list[Damaged]]:
    """Return the leases and the damaged directories in the state directory."""
    root = state_root()
    if not os.path.lexists(root):
        return [], []
    try:
        check_private(root, _WHAT)
    except LocalError as error:
        raise _unusable(error) from None
    found: dict[str, Lease] = {}
    broken = []
    # "." sorts before letters, so a new cluster replaces an earlier one of its name that is being removed.
    for path in sorted(root.iterdir()):
        removed = _REMOVED.fullmatch(path.name)
        name = removed[1] if removed else path.name
        if not is_name(name):
            continue
        try:
            found[name] = Lease(_label(path, name), root / name, Journal(root / name))
        except FileNotFoundError:
            if not removed and (path / FILE_NAME).exists():
                broken.append(Damaged(name, path, "it is missing"))
        except NotADirectoryError:
            continue
        except OSError as error:
            broken.append(Damaged(name, path, error.strerror or str(error)))
        except ValueError as error:
            broken.append(Damaged(name, path, str(error)))
    return [found[name] for name in sorted(found)], broken


def _label(directory: Path, name: str) -> Label:
    """Read the label in a cluster's directory.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a label.
    """
    words = (directory / LABEL_FILE).read_bytes().decode("utf-8", "replace").split()
    if len(words) != 3 or words[0] != name or not _NUMBER.fullmatch(words[1]) or not _TOKEN.fullmatch(words[2]):
        raise ValueError("not a label")
    return Label(name, int(words[1]), words[2])


@contextmanager
def _registry() -> Iterator[Path]:
    """Yield the state directory, locked against changes of its entries by other processes."""
    root = state_root()
    try:
        make_private(root, _WHAT)
    except LocalError as error:
        raise _unusable(error) from None
    with ExitStack() as holding:
        try:
            holding.enter_context(locked(root / ".lock"))
        except LocalError as error:
            raise _unusable(error) from None
        yield root


def _unusable(error: LocalError) -> LocalError:
    return LocalError(f"{error}; {STATE_VARIABLE} names another directory")
