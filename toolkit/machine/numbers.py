"""Numbers of clusters, which the kernel's names for their namespaces and interfaces begin with.

Names in the kernel are the whole machine's, whatever state directory a cluster is of. So numbers are given out
under a lock of the machine, in a directory of root's: only root makes such names.
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
"""Where names of namespaces and interfaces show."""
_NUMBERED = re.compile("ml([0-9]{1,3})(?![0-9])")
NUMBERS = 1000


@dataclass(frozen=True, slots=True)
class Holder:
    """The cluster that a number was given to."""

    directory: Path
    token: str

    @property
    def is_there(self) -> bool:
        """True if there is still something of the cluster."""
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
        """The lowest number that no cluster has, nor anything in the machine; None if all are taken.

        Args:
            taken: numbers that are not free either.
        """
        seen = _seen()
        for number in range(NUMBERS):
            if number not in taken and number not in seen:
                holder = self.holder(number)
                if holder is None or not holder.is_there:
                    return number
        return None

    def give(self, number: int, holder: Holder) -> None:
        """Write down whose number it is; it is free again when nothing of the cluster is there.

        Raises:
            LocalError: it cannot be written.
        """
        if self._directory is not None:
            write_private(self._directory / str(number), f"{holder.token} {holder.directory}\n".encode())

    def holder(self, number: int) -> Holder | None:
        """The cluster that a number was given to last."""
        if self._directory is None:
            return None
        try:
            text = (self._directory / str(number)).read_text("utf-8", "surrogateescape")
        except OSError:
            return None
        token, _, directory = text.removesuffix("\n").partition(" ")
        return Holder(Path(directory), token)


@contextmanager
def exclusively() -> Iterator[Numbers]:
    """The numbers of this machine, while no other process gives one out.

    Other users than root have no such names, and nothing to look after.
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
    """The cluster that a number was given to last, as far as this user can know."""
    return Numbers(_DIRECTORY if os.geteuid() == 0 else None).holder(number)


def _seen() -> set[int]:
    """Numbers that something in the machine carries."""
    found = set()
    for place in _NAMED:
        with suppress(OSError):
            found |= {int(number[1]) for path in place.iterdir() if (number := _NUMBERED.match(path.name))}
    return found
