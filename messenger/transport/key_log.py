"""The key log as a file, appended to line by line by any number of processes (format: messenger/keylog.py)."""

import os
from collections.abc import Callable
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import append_private


def key_log_writer(path: Path | str) -> Callable[[str], None]:
    """A function that appends a line to a file that only its owner can read.

    The file is created at once. Each line is one write to a file that was opened for it, so that several writers
    do not mix their lines, and the file may be moved away. Each time the file must be this user's own and closed
    to others; the function raises OSError if it is not, or cannot be written.

    Raises:
        LocalError: it cannot be written; or it is a symbolic link, not a file, another user's, or open to others.
    """

    def append(line: str) -> None:
        log = append_private(path)
        try:
            os.write(log, line.encode("ascii"))
        finally:
            os.close(log)

    try:
        append("")
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from None
    return append
