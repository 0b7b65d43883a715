"""Numbers of clusters, which are part of the names of their namespaces and interfaces.

Names in the kernel are global, whatever state directory a cluster has. So numbers are assigned under a
machine-wide lock, in a directory of root: only root makes such names.
"""

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.journal import LABEL_FILE, removed_name
from toolkit.machine.private import locked, make_private, write_private

_DIRECTORY = Path("/run/msgrlab/.numbers")
_NAMED = (Path("/run/netns"), Path("/sys/class/net"))
"""Directories that list namespaces and interfaces."""
_NUMBERED = re.compile("ml([0-9]{1,3})(?![0-9])")
NUMBERS = 1000


@dataclass(frozen=True, slots=True)
class Holder:
    """The cluster that a number was assigned to."""

    directory: Path
    token: str

    @property
    def is_there(self) -> bool:
        """True if the cluster's directory still exists."""
        for directory in (self.directory, removed_name(self.directory)):
            try:
                if self.token in (directory / LABEL_FILE).read_text("utf-8", "replace").split():
                    return True
            except OSError:
                continue
        return False


class Numbers:
    """The numbers of this machine; see :func:`exclusively`."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def free(self, taken: Collection[int] = ()) -> int | None:
        """Return the lowest number that no cluster and no namespace or interface has; None if all are in use.

        Args:
            taken: further numbers that are in use.
        """
        seen = _seen()
        for number in range(NUMBERS):
            if number not in taken and number not in seen:
                holder = self.holder(number)
                if holder is None or not holder.is_there:
                    return number
        return None

    def give(self, number: int, holder: Holder) -> None:
        """Record the holder of a number; the number is free again once its directory is gone.

        Raises:
            LocalError: it cannot be written.
        """
        if self._directory is not None:
            write_private(self._directory / str(number), f"{holder.token} {holder.directory}\n".encode())

    def holder(self, number: int) -> Holder | None:
        """Return the cluster that a number was last assigned to; None if unknown.

        A number is recorded before its cluster's directory is made. If ``up`` is killed while it writes the
        record, the record is incomplete, and there is no cluster.
        """
        if self._directory is None:
            return None
        try:
            text = (self._directory / str(number)).read_text("utf-8", "surrogateescape")
        except OSError:
            return None
        token, _, directory = text.removesuffix("\n").partition(" ")
        return Holder(Path(directory), token) if token and directory.startswith("/") else None


@contextmanager
def exclusively() -> Iterator[Numbers]:
    """Yield the numbers of this machine, locked against other processes.

    Users other than root make no such names, and need no lock.
    """
    if os.geteuid() != 0:
        yield Numbers(None)
        return
    try:
        make_private(_DIRECTORY.parent, "directory")
        make_private(_DIRECTORY, "directory")
    except LocalError:  # such as in a container that may not write to /run
        yield Numbers(None)
        return
    with locked(_DIRECTORY / "lock"):
        yield Numbers(_DIRECTORY)


def holder_of(number: int) -> Holder | None:
    """Return the cluster that a number was last assigned to, as far as this user can read it."""
    return Numbers(_DIRECTORY if os.geteuid() == 0 else None).holder(number)


def _seen() -> set[int]:
    """Return the numbers in names of namespaces and interfaces."""
    found = set()
    for place in _NAMED:
        with suppress(OSError):
            found |= {int(number[1]) for path in place.iterdir() if (number := _NUMBERED.match(path.name))}
    return found
