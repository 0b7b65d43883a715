"""Directories, files and sockets that other users of this machine cannot read, forge or replace."""

import errno
import fcntl
import grp
import os
import pwd
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError

_CREDENTIALS = struct.Struct("3i")
"""Layout of SO_PEERCRED: process id, user id, group id."""
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
"""Most symbolic links in a path, as in the kernel."""
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


def make_private(directory: Path, what: str) -> None:
    """Make a directory for this user alone, if it does not exist, and check it; see :func:`check_private`.

    Args:
        directory: the directory; parents are made as well.
        what: description for errors: ``state directory``.

    Raises:
        LocalError: it cannot be made, or another user can read or replace it.
    """
    try:
        for parent in reversed([each for each in directory.parents if not each.exists()]):
            parent.mkdir(mode=0o755, exist_ok=True)
        directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    except FileExistsError:
        raise LocalError(f"{what} {directory} is not a directory") from None
    except OSError as error:
        raise LocalError(f"{what} {directory}: {error.strerror}") from None
    check_private(directory, what)


def check_private(directory: Path, what: str) -> None:
    """Check that this user owns a directory, that it has mode 0700, and that no other user can replace it.

    Args:
        directory: an existing directory.
        what: description for errors.

    Raises:
        LocalError: it is not private; the message says why, and names a remedy.
    """
    about = _examined(directory, what)
    if about.st_uid != os.geteuid():
        raise LocalError(f"{what} {directory} belongs to {_user(about.st_uid)}, not to {_user(os.geteuid())}")
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(about.st_mode)
        raise LocalError(f"{what} {directory} has mode {mode:04o}, open to others: chmod 700 {directory}")


def check_own(directory: Path, what: str) -> None:
    """Check that no other user can write to a directory or replace it; others may read it.

    Args:
        directory: an existing directory.
        what: description for errors.

    Raises:
        LocalError: another user can; the message says why, and names a remedy.
    """
    about = _examined(directory, what)
    if about.st_uid not in _trusted():
        raise LocalError(f"{what} {directory} belongs to {_user(about.st_uid)}, not to {_user(os.geteuid())}")
    if _is_writable_for_others(about):
        mode = stat.S_IMODE(about.st_mode)
        raise LocalError(f"{what} {directory} has mode {mode:04o}, writable for others: chmod go-w {directory}")


def _examined(directory: Path, what: str) -> os.stat_result:
    """Check all parents of a directory; returns its own status.

    All of them have to belong to root or to this user. Those that others may write to have to be sticky, like
    ``/tmp``, where only the owner of a file can rename it.

    Raises:
        LocalError: a parent is not safe.
    """
    try:
        *above, real = _way(directory.absolute())
        for each in above:
            _check_above(each, f"{what} {directory}")
        about = real.lstat()
    except OSError as error:
        raise LocalError(f"{what} {directory}: {error.strerror}") from None
    if not stat.S_ISDIR(about.st_mode):
        raise LocalError(f"{what} {directory} is not a directory")
    return about


def _way(path: Path) -> Iterator[Path]:
    """Yield every directory and symbolic link on the way to a path; the last one is the resolved path.

    Raises:
        OSError: there are too many links.
    """
    here, rest, links = Path("/"), list(path.parts[1:]), 0
    yield here
    while rest:
        name = rest.pop(0)
        here = here.parent if name == ".." else here / name
        yield here
        if here.is_symlink():
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = here.readlink()
            here = Path("/") if target.is_absolute() else here.parent
            rest = [part for part in target.parts if part != "/"] + rest


def _check_above(path: Path, what: str) -> None:
    """Check one directory or symbolic link on the way to a directory."""
    about = path.lstat()
    if about.st_uid not in _trusted():
        raise LocalError(f"{what}: {path} belongs to {_user(about.st_uid)}, who can replace it")
    is_open = stat.S_ISDIR(about.st_mode) and not about.st_mode & stat.S_ISVTX and _is_writable_for_others(about)
    if is_open:
        mode = stat.S_IMODE(about.st_mode)
        raise LocalError(f"{what}: other users can replace it, since {path} has mode {mode:04o}")


def _trusted() -> set[int]:
    """Return the ids of users whose directories this user may use.

    In a user namespace, directories of the real root belong to the user id that stands for all users outside.
    """
    return {0, os.geteuid(), Path("/").lstat().st_uid, *_behind_sudo()}


def _is_writable_for_others(about: os.stat_result) -> bool:
    of_group = about.st_mode & stat.S_IWGRP and not _is_own_group(about.st_gid)
    return bool(about.st_mode & stat.S_IWOTH or of_group)


def _behind_sudo() -> set[int]:
    """Return the id of the user that became root with sudo, and can do so again."""
    named = os.environ.get("SUDO_UID", "")
    return {int(named)} if os.geteuid() == 0 and named.isdecimal() else set()


def _is_own_group(gid: int) -> bool:
    """True if only this user and root are in a group: root's, or the user's private group."""
    if gid == 0:
        return True
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read.

    Raises:
        LocalError: it cannot be written.
    """
    try:
        with os.fdopen(os.open(path, _WRITE_FLAGS, FILE_MODE), "wb") as out:
            os.fchmod(out.fileno(), FILE_MODE)
            out.write(content)
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from None


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, which is created if needed; its content does not change.

    Args:
        path: path of the file; a symbolic link is rejected.
        wait: True to wait until another holder releases it.

    Raises:
        BlockingIOError: it is held, and ``wait`` is False.
        FileNotFoundError: its directory does not exist.
        LocalError: it cannot be opened.
    """
    try:
        lock = os.open(path, _LOCK_FLAGS, FILE_MODE)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "a symbolic link, not a lock" if error.errno == errno.ELOOP else error.strerror
        raise LocalError(f"{path}: {why}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(lock)


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a Unix socket, when it connected or began to listen."""

    pid: int
    uid: int

    @classmethod
    def of(cls, connection: socket.socket) -> "Peer":
        """Return the peer of a connection, according to the kernel."""
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        return cls(pid, uid)

    @property
    def is_stopped(self) -> bool:
        """True if it is stopped by a signal (SIGSTOP) or a debugger."""
        try:
            about = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return False
        return about.rpartition(b")")[2].split()[0] in {b"T", b"t"}

    @property
    def is_trusted(self) -> bool:
        """True if it runs as this user or as root."""
        return self.uid in {0, os.geteuid()}
