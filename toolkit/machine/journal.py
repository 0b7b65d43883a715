"""The undo journal of a cluster: each change is on disk before it is made.

However a cluster ends, its journal lists what has to be undone: every entry is written and synced before its
change is made. Entries are undone in reverse order. The cluster's own directory is removed last: it is renamed
first, so that its name is free and a partly removed directory is not taken for a cluster, and the journal in it is
deleted last, so that an interrupted removal can be found and repeated.
"""

import errno
import json
import os
import threading
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Change, Mount, Tree, dump
from toolkit.machine.private import FILE_MODE
from toolkit.machine.trees import remove_tree

FILE_NAME = "journal"
LABEL_FILE = "label"
"""File beside the journal: see :mod:`toolkit.machine.leases`."""
_TAKEN_BACK = "taken back"
"""Key of a line whose value is a change that was noted before but not made."""
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Journal:
    """The changes of one cluster, stored in its directory.

    Args:
        directory: directory of the cluster; its lease makes it.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._directory = directory
        self._lock = threading.Lock()
        self._noted: list[Change] = []
        """Changes that this object noted, in case another program removes the file."""

    def note(self, change: Change) -> None:
        """Write a change that is about to be made.

        Raises:
            LocalError: it cannot be written; the change must not be made.
        """
        self._append(dump(change))
        self._noted.append(change)

    def take_back(self, change: Change) -> None:
        """Write that a noted change was not made, because the object to undo belongs to another cluster.

        Raises:
            LocalError: it cannot be written.
        """
        self._append(json.dumps({_TAKEN_BACK: change.as_json()}, separators=(",", ":")).encode() + b"\n")
        self._noted.remove(change)

    def changes(self) -> list[Change]:
        """Return the noted changes; an incomplete last line is ignored, since its change was never made.

        Raises:
            LocalError: a line is not one of a journal.
        """
        found, problems = self._read()
        if problems:
            raise LocalError(problems[0])
        return found

    def undo(self, *, keep_directory: bool = False) -> list[str]:
        """Undo all changes in reverse order, and remove the directory.

        If something cannot be undone, the directory with its journal stays for the next attempt.

        Args:
            keep_directory: True to leave the directory, for files in it that could not be copied elsewhere.

        Returns:
            A line for each change that could not be undone.
        """
        changes, remains = self._read()
        for change in reversed(changes):
            if self._is_own_tree(change):
                continue
            try:
                self._check(change)
                change.undo()
            except LocalError as error:
                remains.append(str(error))
        if remains or keep_directory:
            return remains
        try:
            if any(map(self._is_own_tree, changes)):
                self._rename()
            remove_tree(self._removed, last=(LABEL_FILE, FILE_NAME))
        except LocalError as error:
            return [str(error)]
        self._noted.clear()
        return []

    def _is_own_tree(self, change: Change) -> bool:
        """True if a change is the cluster's directory, under any path."""
        return isinstance(change, Tree) and os.path.realpath(change.path) == os.path.realpath(self._directory)

    @property
    def _removed(self) -> Path:
        return removed_name(self._directory)

    def _rename(self) -> None:
        """Rename the directory to the name for directories being removed."""
        Mount(str(self._directory)).undo()
        while self._directory.exists():
            remove_tree(self._removed, last=(LABEL_FILE, FILE_NAME))  # of an earlier cluster of the same name
            try:
                self._directory.rename(self._removed)
            except FileNotFoundError:
                return  # another process has renamed it
            except OSError as error:
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:  # another process has renamed one to that
                    raise LocalError(f"{self._directory}: {error.strerror}") from None

    def _append(self, line: bytes) -> None:
        with self._lock:
            try:
                with os.fdopen(os.open(self.path, _APPEND, FILE_MODE), "ab") as out:
                    out.write(line)
                    out.flush()
                    os.fsync(out.fileno())
            except OSError as error:
                raise LocalError(f"{self.path}: {error.strerror}") from None

    def _check(self, change: Change) -> None:
        """Raise LocalError for a tree or mount outside of the cluster's directory."""
        if isinstance(change, Tree | Mount):
            own, path = (Path(os.path.realpath(each)) for each in (self._directory, change.path))
            if own != path and own not in path.parents:
                raise LocalError(f"{self.path}: {change.path} is not below {self._directory}: it is not removed")

    def _read(self) -> tuple[list[Change], list[str]]:
        """Return the changes, and a problem for each invalid line."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return list(self._noted), []
        except OSError as error:
            return [], [f"{self.path}: {error.strerror}"]
        found: list[Change] = []
        problems: list[str] = []
        for number, line in enumerate(lines, 1):
            try:
                values = json.loads(line)
                if not isinstance(values, dict):
                    raise LocalError("journal: not a JSON object")
                if _TAKEN_BACK in values:
                    found.remove(Change.from_json(values[_TAKEN_BACK]))
                else:
                    found.append(Change.from_json(values))
            except LocalError as error:
                problems.append(f"{self.path}:{number}: {error}: remove {self._directory} by hand")
            except (ValueError, AttributeError, RecursionError):
                problems.append(f"{self.path}:{number}: not a line of a journal: remove {self._directory} by hand")
        return found, problems


def removed_name(directory: Path) -> Path:
    """Return the path that a cluster's directory is renamed to while it is being removed."""
    return directory.with_name(f".{directory.name}.removed")
