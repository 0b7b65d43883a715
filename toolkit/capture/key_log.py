"""A key log that is still being written: its new lines, as they come."""

from pathlib import Path

from messenger.errors import LocalError
from messenger.files import amount, open_file
from messenger.keylog import parse_key_log

_MOST_NEW_BYTES = 1 << 20
"""Read in one go; what is behind follows with the next call."""


class GrowingKeyLog:
    """Follows the key log of a messenger or proxy that runs at the same time. It may appear later.

    Args:
        path: of the file.

    Raises:
        LocalError: there is no folder for it, it cannot be read, or what is in it already is no key log.
    """

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise LocalError(f"{path}: there is no folder {path.parent}")
        self.path = path
        self.lines = 0
        """How many there were so far."""
        self.problem = ""
        """What was found wrong on the way; such lines are left out."""
        self._position = 0
        self._first = self._read()
        self._check(self._first)

    def new_text(self) -> str:
        """Whole lines that were not there before; empty if there are none. Never raises."""
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
        """What is no key log had better not be published inside a capture: it may be a private file."""
        for _ in parse_key_log(text, str(self.path)):
            self.lines += 1
