"""Files of unknown origin: read up to a limit, and written so that no other user can read or redirect them.

Paths that a user gives are read here. A directory, device, socket or named pipe is refused before it is opened,
because opening alone may block or have an effect. An unnamed pipe, such as a shell makes for ``<(COMMAND)``, is
read like a file.
"""

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from messenger.errors import LocalError

PRIVATE_MODE = 0o600
_OTHERS = 0o077
_PIECE_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


# ---- reading


def open_file(path: Path | str) -> io.FileIO:
    """Open a file for reading, unbuffered.

    Raises:
        LocalError: it cannot be opened, or is a directory, a device, a socket or a named pipe.
    """
    try:
        _require_file(path, Path(path).stat())
        descriptor = os.open(path, _READ)
    except (OSError, ValueError) as error:
        raise LocalError(f"{path}: {_reason(error)}") from None
    try:
        _require_file(path, os.fstat(descriptor))  # the path may have been replaced since
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path | str, most_bytes: int, what: str) -> bytes:
    """Read the contents of a file, if it is not longer than a limit.

    Args:
        path: path of the file.
        most_bytes: the limit.
        what: kind of the file for error messages, such as ``keyring``.

    Raises:
        LocalError: it cannot be read, is not a file, or is longer than the limit.
    """
    found = bytearray()
    with open_file(path) as file:
        too_long = os.fstat(file.fileno()).st_size > most_bytes
        try:
            while not too_long and (piece := file.read(_PIECE_BYTES)):
                found += piece
                too_long = len(found) > most_bytes
        except OSError as error:
            raise LocalError(f"{path}: {_reason(error)}") from None
    if too_long:
        raise LocalError(f"{path}: more than {amount(most_bytes)}, the limit for a {what}")
    return bytes(found)


def read_text(path: Path | str, most_bytes: int, what: str) -> str:
    """Read a file as UTF-8 text; arguments as for :func:`read_bytes`.

    Raises:
        LocalError: as :func:`read_bytes`; or the file is not UTF-8 (the error names the line).
    """
    raw = read_bytes(path, most_bytes, what)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(path, raw.count(b"\n", 0, error.start) + 1, error, what) from None


def read_lines(path: Path | str, most_bytes: int, longest_bytes: int, what: str) -> Iterator[str]:
    """Yield the lines of a text file, with their line ends.

    Args:
        path: path of the file.
        most_bytes: limit for the whole file.
        longest_bytes: limit for one line.
        what: kind of the file for error messages, such as ``history``.

    Raises:
        LocalError: as :func:`read_text`; or a line is longer than its limit.
    """
    left_bytes, number = most_bytes, 0
    with open_file(path) as raw, io.BufferedReader(raw, _PIECE_BYTES) as file:
        try:
            while line := file.readline(longest_bytes + 1):
                number += 1
                left_bytes -= len(line)
                if len(line) > longest_bytes:
                    limit = f"more than {amount(longest_bytes)}, the limit for a line of a {what}"
                    raise LocalError(f"{path}:{number}: {limit}")
                if left_bytes < 0:
                    raise LocalError(f"{path}:{number}: more than {amount(most_bytes)}, the limit for a {what}")
                yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _not_text(path, number, error, what) from None
        except OSError as error:
            raise LocalError(f"{path}: {_reason(error)}") from None


def _not_text(path: Path | str, line: int, error: UnicodeDecodeError, what: str) -> LocalError:
    byte = error.object[error.start]
    return LocalError(f"{path}:{line}: not a {what}: byte 0x{byte:02x} is not text in UTF-8")


def _require_file(path: Path | str, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode) or (stat.S_ISFIFO(status.st_mode) and _has_no_name(path)):
        return
    raise LocalError(f"{path}: is {_kind(status)}, not a file")


def _has_no_name(path: Path | str) -> bool:
    """True if the path is a pipe without a name in any directory, such as ``/dev/fd/63``."""
    return not os.path.lexists(os.path.realpath(path))


def _kind(status: os.stat_result) -> str:
    return next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def amount(size_bytes: int) -> str:
    """Format a size with a binary unit if it is a multiple of one: ``64 MiB``."""
    for unit, name in _UNITS:
        if size_bytes >= unit and not size_bytes % unit:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} bytes"


# ---- writing


def new_file(path: Path | str, mode: int = PRIVATE_MODE) -> BinaryIO:
    """Create a file, by default one that only its owner can read.

    Raises:
        OSError: the path exists (a symbolic link counts), or cannot be written.
    """
    return os.fdopen(os.open(path, _NEW, mode), "wb")


@contextlib.contextmanager
def created(path: Path | str, mode: int = PRIVATE_MODE) -> Iterator[BinaryIO]:
    """Open a new file as :func:`new_file` does; it is removed again if it cannot be written to its end.

    Raises:
        OSError: the path exists, or the file cannot be written.
    """
    file = new_file(path, mode)
    try:
        with file:
            yield file
    except OSError:
        Path(path).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing(path: Path | str, mode: int = PRIVATE_MODE) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` when the block ends, and is removed if the block raises.

    A symbolic link at ``path`` is replaced, not followed.

    Args:
        path: file to replace or create.
        mode: mode of the new file, less the umask; by default only its owner can read it.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with contextlib.ExitStack() as on_failure:
        file = new_file(partial, mode)
        on_failure.callback(partial.unlink, missing_ok=True)
        with file:
            yield file
        partial.replace(path)
        on_failure.pop_all()


def append_private(path: Path | str) -> int:
    """Open a file of secrets for appending, or create it. Returns the descriptor.

    Raises:
        OSError: it cannot be written, is a symbolic link or no regular file, belongs to another user, or others
            have access to it.
    """
    try:
        descriptor = os.open(path, _APPEND, PRIVATE_MODE)
    except OSError as error:
        reason = {errno.ELOOP: "is a symbolic link; give the file itself", errno.ENXIO: "is not a file"}
        if error.errno in reason:
            raise PermissionError(errno.EPERM, reason[error.errno]) from None
        raise
    try:
        _require_own(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_own(status: os.stat_result) -> None:
    me = os.geteuid()
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError(errno.EPERM, f"is {_kind(status)}, not a file")
    if status.st_uid != me:
        raise PermissionError(
            errno.EPERM, f"belongs to user {status.st_uid}, not to user {me} who would write to it"
        )
    if mode & _OTHERS:
        raise PermissionError(errno.EPERM, f"is open to other users (mode {mode:04o}); chmod 600 first")
