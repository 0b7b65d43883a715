"""The key log as a file, to which any number of processes append lines (format: messenger/keylog.py)."""

import os
from collections.abc import Callable
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import append_private


def key_log_writer(path: Path | str) -> Callable[[str], None]:
    """A function that appends a line to a file which only its owner can read.

    The file is created at once. Each line is written by one write to a file that was opened for it, so that the
    lines of several writers do not mix, and the file may be moved away. At each line the file must belong to this
    user and be inaccessible to others; the function raises OSError if it is not, or cannot be written.

    Raises:
        LocalError: the file cannot be written, is a symbolic link or no regular file, belongs to another user, or
            others have access to it.
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
