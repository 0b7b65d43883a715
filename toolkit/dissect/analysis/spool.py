"""A temporary file without a name, which is in memory as long as it is short."""

from contextlib import suppress
from os import SEEK_END
from tempfile import SpooledTemporaryFile, gettempdir
from weakref import finalize

from messenger.errors import LocalError

_MOST_BYTES_IN_MEMORY = 1 << 23


class Spool:
    """Bytes that are appended in pieces, and read again by position."""

    __slots__ = ("__weakref__", "_file")

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_MOST_BYTES_IN_MEMORY)  # noqa: SIM115 - closed by the finalizer
        finalize(self, _close, self._file)

    def append(self, *pieces: bytes) -> list[int]:
        """Write the pieces behind everything else; returns the position of each, and that of the end.

        Raises:
            LocalError: the file cannot be written.
        """
        try:
            self._file.seek(0, SEEK_END)
            positions = [self._file.tell()]
            for piece in pieces:
                positions.append(positions[-1] + self._file.write(piece))
        except OSError as error:
            raise _no_file(error) from None
        return positions

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return bytes that were written.

        Raises:
            LocalError: the file cannot be read.
        """
        try:
            self._file.seek(position)
            return self._file.read(size_bytes)
        except OSError as error:
            raise _no_file(error) from None


def _close(file: "SpooledTemporaryFile[bytes]") -> None:
    with suppress(OSError):  # of a full disk; the content is not needed any more
        file.close()


def _no_file(error: OSError) -> LocalError:
    return LocalError(f"the temporary file for frames in {gettempdir()}: {error.strerror}")
