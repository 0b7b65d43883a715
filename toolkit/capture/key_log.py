"""A key log that another program is still writing: returns its new lines."""

from pathlib import Path

from messenger.errors import LocalError
from messenger.files import amount, open_file
from messenger.keylog import parse_key_log

_MOST_NEW_BYTES = 1 << 20
"""Limit of one read; the rest follows with the next call."""


class GrowingKeyLog:
    """Follows the key log of a running messenger or proxy. The file may be created later.

    Args:
        path: path of the file.

    Raises:
        LocalError: its folder does not exist, or the file cannot be read or is no key log.
    """

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise LocalError(f"{path}: there is no folder {path.parent}")
        self.path = path
        self.lines = 0
        """Number of lines so far."""
        self.problem = ""
        """The problem of malformed lines, which are skipped; empty if there were none."""
        self._position = 0
        self._first = self._read()
        self._check(self._first)

    def new_text(self) -> str:
        """Return the new complete lines; empty if there are none. Never raises."""
        first, self._first = self._first, ""
        try:
            text = self._read()
            self._check(text)
        except LocalError as error:
            self.problem = str(error)
            return first
        return first + text

    def _read(self) -> str:
        if not self.path.exists():
            return ""
        with open_file(self.path) as file:
            try:
                file.seek(self._position)
                found = file.read(_MOST_NEW_BYTES)
            except OSError as error:
                raise LocalError(f"{self.path}: {error.strerror}") from None
        whole = found[: found.rfind(b"\n") + 1]
        if len(found) == _MOST_NEW_BYTES and not whole:
            raise LocalError(f"{self.path}: not a key log: a line of more than {amount(_MOST_NEW_BYTES)}")
        self._position += len(whole)
        try:
            return whole.decode()
        except UnicodeDecodeError:
            raise LocalError(f"{self.path}: not a key log: not text") from None

    def _check(self, text: str) -> None:
        """Count the lines, and refuse text that is no key log: a private file must not end up in a capture."""
        for _ in parse_key_log(text, str(self.path)):
            self.lines += 1
