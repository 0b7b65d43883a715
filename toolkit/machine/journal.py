"""The undo journal of a cluster: what it changes is on disk before it is done.

Whatever ends a cluster, its journal says what has to be undone: every entry is written, and synced, ahead of its
change. Entries are undone last one first.
"""

import json
import os
import threading
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.changes import Change, Tree, dump

FILE_NAME = "journal"


class Journal:
    """The changes of one cluster, in its directory.

    Args:
        directory: of the cluster; made by whoever took the lease.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self._lock = threading.Lock()

    def note(self, change: Change) -> None:
        """Write down a change that is about to be made.

        Raises:
            LocalError: it cannot be written; the change must not be made.
        """
        with self._lock:
            try:
                with self.path.open("ab") as out:
                    out.write(dump(change))
                    out.flush()
                    os.fsync(out.fileno())
            except OSError as error:
                raise LocalError(f"{self.path}: {error.strerror}") from None

    def changes(self) -> list[Change]:
        """What has been noted; a last line that was cut off stands for a change that was never made.

        Raises:
            LocalError: a line is none of ours.
        """
        if not self.path.exists():
            return []
        found = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], 1):
            try:
                values = json.loads(line)
            except ValueError:
                raise LocalError(f"{self.path}:{number}: not a line of a journal") from None
            found.append(Change.from_json(values))
        return found

    def undo(self) -> list[str]:
        """Undo all changes, the last one first; returns what could not be undone, a line each.

        While something is left, so is the directory that the journal lies in: the next one to try finds it there.
        """
        remains: list[str] = []
        own = Tree(str(self.path.parent))
        for change in reversed(self.changes()):
            if remains and change == own:
                continue
            try:
                change.undo()
            except LocalError as error:
                remains.append(str(error))
        return remains
