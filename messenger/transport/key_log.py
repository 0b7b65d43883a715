"""The key log as a file, appended to line by line by any number of processes (format: messenger/keylog.py)."""

import os
from collections.abc import Callable
from pathlib import Path

from messenger.errors import LocalError

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o600


def key_log_writer(path: Path | str) -> Callable[[str], None]:
    """What appends lines to a file, which only its owner may read.

    The file is made at once. Each line is one write to a file that was opened for it, so writers do not get into
    each other's lines, and the file may be moved away.

    Raises:
        LocalError: it cannot be written.
    """

    def append(line: str) -> None:
        log = os.open(path, _FLAGS, _MODE)
        try:
            os.write(log, line.encode("ascii"))
        finally:
            os.close(log)

    try:
        append("")
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from None
    return append
