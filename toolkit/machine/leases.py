"""Leases: which names and numbers clusters of this machine have, whoever runs them.

Every cluster has a directory below :func:`state_root`. Whoever keeps the cluster up holds a lock on a file in it,
which the kernel drops when that process ends; a directory without a lock is what a crash has left.
"""

import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Processes, Tree
from toolkit.machine.journal import FILE_NAME, Journal
from toolkit.machine.labels import Label, check_name

STATE_VARIABLE = "MSGRLAB_STATE"
"""Names another directory for the state of clusters."""
_LABEL_FILE = "label"
_LOCK_FILE = "lock"
_NUMBERS = 1000
_UNFINISHED = re.compile(r"\.[a-z][a-z0-9-]{0,29}\.[0-9]+")
_FIRST_FILES = frozenset({_LABEL_FILE, FILE_NAME})
_NAMED = (Path("/run/netns"), Path("/sys/class/net"))
"""Where names of namespaces and interfaces show."""
_NUMBERED = re.compile("ml([0-9]+)")


def state_root() -> Path:
    """Where clusters have their directories; short, since sockets lie in them."""
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named)
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
        """Take the name for a new cluster; its journal begins with its directory and its processes.

        Raises:
            LocalError: the name is no name, or a cluster of that name is up, or was and left something.
        """
        check_name(name)
        with _registry() as root:
            directory = root / name
            if directory.exists():
                raise LocalError(f"a cluster {name!r} is there already: msgrlab down {name}, or give --name")
            used = {lease.label.number for lease in leases()} | _numbers_seen()
            number = next((number for number in range(_NUMBERS) if number not in used), None)
            if number is None:
                raise LocalError(f"{_NUMBERS} clusters are up already: msgrlab down --all")
            lease = cls(Label(name, number, secrets.token_hex(4)), directory, Journal(directory))
            # Under another name until it is whole: whoever finds a directory finds a journal and a label in it.
            unfinished = root / f".{name}.{os.getpid()}"
            unfinished.mkdir(mode=0o700)
            (unfinished / _LABEL_FILE).write_text(f"{name} {number} {lease.label.token}\n")
            early = Journal(unfinished)
            early.note(Tree(str(directory)))
            early.note(Processes(str(lease.label)))
            unfinished.rename(directory)
            return lease

    @classmethod
    def find(cls, name: str) -> "Lease":
        """The lease of a cluster that was made.

        Raises:
            LocalError: there is none of that name.
        """
        lease = _read(state_root() / check_name(name))
        if lease is None:
            known = ", ".join(lease.label.name for lease in leases())
            raise LocalError(f"no cluster {name!r}; {f'there is {known}' if known else 'none is up'}")
        return lease

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for as long as this lasts: the cluster is being kept up.

        Raises:
            LocalError: somebody else does.
        """
        with (self.directory / _LOCK_FILE).open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LocalError(f"cluster {self.label.name!r} is kept up by another process") from None
            yield

    @property
    def is_held(self) -> bool:
        """Whether somebody keeps the cluster up."""
        try:
            with self.held():
                return False
        except LocalError:
            return True
        except FileNotFoundError:
            return False


def _numbers_seen() -> set[int]:
    """Numbers that something in the machine carries, such as clusters of another state directory."""
    names = (path.name for place in _NAMED for path in (place.iterdir() if place.is_dir() else ()))
    return {int(found[1]) for name in names if (found := _NUMBERED.match(name))}


def leases() -> list[Lease]:
    """All clusters of this state directory, whatever their state, by name."""
    root = state_root()
    found = (_read(path) for path in sorted(root.iterdir())) if root.is_dir() else ()
    return [lease for lease in found if lease is not None]


def sweep() -> None:
    """Remove what those have left who were killed while they took a lease."""
    with _registry() as root:
        for path in root.glob(".*.*"):  # nobody else is taking one now
            if _UNFINISHED.fullmatch(path.name) and {each.name for each in path.iterdir()} <= _FIRST_FILES:
                shutil.rmtree(path)


def _read(directory: Path) -> Lease | None:
    try:
        name, number, token = (directory / _LABEL_FILE).read_text().split()
    except (OSError, ValueError):
        return None
    return (
        None
        if directory.name.startswith(".")
        else Lease(Label(name, int(number), token), directory, Journal(directory))
    )


@contextmanager
def _registry() -> Iterator[Path]:
    """The state directory, with nobody else in it."""
    root = state_root()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (root / ".lock").open("wb")
    except OSError as error:
        raise LocalError(f"{root}: {error.strerror}; {STATE_VARIABLE} names another directory") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield root
