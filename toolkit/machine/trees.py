"""Remove a directory tree, never through a symbolic link and never across a mount."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.mounts import mount_id, mounts_below

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path, last: tuple[str, ...] = ()) -> None:
    """Remove a directory with its content; does nothing if it does not exist.

    Several processes may remove the same tree at once, and an interrupted removal can be repeated.

    Args:
        path: the directory.
        last: names of files in it that are removed after everything else.

    Raises:
        LocalError: something is mounted in it, or cannot be removed.
    """
    if mounted := mounts_below(path):
        raise LocalError(f"{path} is not removed: {mounted[0]} is a mount: umount {mounted[0]}")
    with contextlib.ExitStack() as closing:
        try:
            top = os.open(path, _FLAGS)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None
        closing.callback(os.close, top)
        _empty(top, path, frozenset(last))
        try:
            for name in last:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=top)
            with contextlib.suppress(FileNotFoundError):
                path.rmdir()
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None


@dataclass(slots=True)
class _Level:
    """A directory that is being emptied."""

    descriptor: int
    path: Path
    entries: Iterator[tuple[str, bool]]
    """Remaining entries: name, and True for a directory."""


def _empty(top: int, path: Path, spared: frozenset[str]) -> None:
    """Remove everything from an open directory except some files. Iterative, because a tree may be deep."""
    mount = mount_id(top)
    levels = [_Level(top, path, _entries(top, spared))]
    where = path
    try:
        while levels:
            level = levels[-1]
            where = level.path
            for name, is_directory in level.entries:
                where = level.path / name
                with contextlib.suppress(FileNotFoundError):  # another process removes this tree, too
                    if is_directory:
                        levels.append(_entered(level, name, mount))
                        break
                    os.unlink(name, dir_fd=level.descriptor)
            else:
                levels.pop()
                if levels:
                    os.close(level.descriptor)
                    with contextlib.suppress(FileNotFoundError):
                        os.rmdir(level.path.name, dir_fd=levels[-1].descriptor)
    except OSError as error:
        raise LocalError(f"{where}: {error.strerror}") from None
    finally:
        for level in levels[1:]:
            os.close(level.descriptor)


def _entered(level: _Level, name: str, mount: str) -> _Level:
    descriptor = os.open(name, _FLAGS, dir_fd=level.descriptor)
    path = level.path / name
    if mount_id(descriptor) != mount:
        os.close(descriptor)
        raise LocalError(f"{path} is not removed: something is mounted there: umount {path}")
    return _Level(descriptor, path, _entries(descriptor))


def _entries(descriptor: int, spared: frozenset[str] = frozenset()) -> Iterator[tuple[str, bool]]:
    with os.scandir(descriptor) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    return ((name, is_directory) for name, is_directory in entries if name not in spared)
