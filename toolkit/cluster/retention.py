"""Keep files of a cluster that goes down: readable by their owner alone, and without keys unless requested."""

import contextlib
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from messenger.errors import LocalError
from messenger.files import new_file
from toolkit.capture.formats.blocks import BYTE_ORDER_MAGIC, DECRYPTION_SECRETS, SECTION_HEADER
from toolkit.machine.private import DIRECTORY_MODE

SERVICE_KEYS = "service.keys"
"""File in the cluster's directory: a key log (docs/keylog.md) that decrypts secure links between messengers of
msgrlab."""
CEPH_KEYRING = "ceph.keyring"
"""File in the cluster's directory: the keys of all Ceph daemons and clients."""
KEY_LOG = "keys.log"
"""File in a host's directory: the keys of its links, written if they are captured."""
_KEY_FILES = frozenset({SERVICE_KEYS, CEPH_KEYRING, KEY_LOG})

_CAPTURE = ".pcapng"
_KEPT = frozenset({".ndjson", _CAPTURE, ".log", ".out"})
_SMALLEST_BLOCK_BYTES = 12
_CHUNK_BYTES = 1 << 20
_BLOCK_HEAD_BYTES = 8


def keep_files(cluster: Path, directory: Path, *, keys: bool = False) -> None:
    """Copy history, captures and logs out of a cluster's directory.

    Existing files are not overwritten. Copies of an earlier attempt, which a full disk may have ended, count.

    Only their owner can read the copies. Key logs and keyrings are not copied unless requested, and keys in
    captures are removed.

    Args:
        cluster: directory of the cluster.
        directory: directory for the copies; created if it does not exist.
        keys: True to keep keys, too.

    Raises:
        LocalError: a file exists already or cannot be written; the others are copied nevertheless. Leave the
            cluster's directory then: the text says that its files are still there.
    """
    problems = []
    for path in _worth_keeping(cluster, keys=keys):
        target = directory / path.relative_to(cluster)
        try:
            make_directories(target.parent)
            _copy(path, target, keys=keys)
        except FileExistsError:
            if not _is_copy(path, target, keys=keys):
                problems.append(f"{target}: it exists already, and nothing is overwritten")
        except OSError as error:
            problems.append(f"{target}: {error.strerror}")
        except LocalError as error:
            problems.append(str(error))
    if problems:
        with contextlib.suppress(OSError):
            directory.rmdir()  # if it is empty, it would only be in the way of the next attempt
        problems.append(f"the files are still in {cluster}, until msgrlab down {cluster.name}")
        raise LocalError("; ".join(problems))


def check_writable(directory: Path) -> None:
    """Make the directory for the copies of :func:`keep_files`, before there is anything to lose.

    Raises:
        LocalError: it cannot be made, or not be written to.
    """
    try:
        make_directories(directory.absolute())
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "cannot be written to")
    except OSError as error:
        raise LocalError(f"{directory}: {error.strerror}") from None


def is_kept(cluster: Path, directory: Path, *, keys: bool = False) -> bool:
    """True if :func:`keep_files` has copied all files."""
    kept = _worth_keeping(cluster, keys=keys)
    return all(_is_copy(path, directory / path.relative_to(cluster), keys=keys) for path in kept)


def _worth_keeping(cluster: Path, *, keys: bool) -> Iterator[Path]:
    """Yield the files to keep, in the cluster's and its hosts' directories; daemons have their stores below."""
    for pattern in ("*", "*/*"):
        for path in sorted(cluster.glob(pattern)):
            wanted = keys if path.name in _KEY_FILES else path.suffix in _KEPT
            if wanted and path.is_file() and not path.is_symlink() and path.stat().st_size:
                yield path


def make_directories(directory: Path) -> None:
    """Make a directory and those above it, each for its owner alone; raises OSError."""
    for each in reversed([directory, *directory.parents]):
        if not each.exists():
            each.mkdir(mode=DIRECTORY_MODE)


def _copy(path: Path, target: Path, *, keys: bool) -> None:
    """Copy a file; remove the copy if it cannot be completed."""
    with path.open("rb") as source, new_file(target) as out:
        try:
            out.writelines(_chunks(source, path, keys=keys))
            out.flush()
        except BaseException:
            target.unlink()
            raise


def _is_copy(path: Path, target: Path, *, keys: bool) -> bool:
    """True if ``target`` has the bytes that :func:`_copy` would write."""
    try:
        with path.open("rb") as source, target.open("rb") as found:
            chunks = _chunks(source, path, keys=keys)
            return all(found.read(len(chunk)) == chunk for chunk in chunks) and not found.read(1)
    except (OSError, LocalError):
        return False


def _chunks(source: BinaryIO, path: Path, *, keys: bool) -> Iterator[bytes]:
    """Yield the bytes of a copy; raises LocalError as :func:`_without_keys`."""
    if path.suffix == _CAPTURE and not keys:
        yield from _without_keys(source, path)
    else:
        yield from iter(lambda: source.read(_CHUNK_BYTES), b"")


def _without_keys(capture: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the blocks of a capture except those with keys; an incomplete last block is dropped.

    Raises:
        LocalError: it is not a pcapng file.
    """
    order, left_bytes = "<", os.fstat(capture.fileno()).st_size
    while len(head := capture.read(_BLOCK_HEAD_BYTES)) == _BLOCK_HEAD_BYTES:
        (kind,) = struct.unpack(f"{order}I", head[:4])
        if kind == SECTION_HEADER:  # the same number in both byte orders
            magic = capture.read(4)
            order = "<" if magic == struct.pack("<I", BYTE_ORDER_MAGIC) else ">"
            head += magic
        (size,) = struct.unpack(f"{order}I", head[4:8])
        if size < _SMALLEST_BLOCK_BYTES or size % 4:
            raise LocalError(f"{path}: not a capture that keys can be taken out of: give --keep-keys")
        left_bytes -= size
        if left_bytes < 0:
            return
        body = capture.read(size - len(head))
        if kind != DECRYPTION_SECRETS:
            yield head + body
