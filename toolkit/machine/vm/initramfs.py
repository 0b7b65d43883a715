"""The initramfs of a virtual machine: an archive in cpio's "newc" format, which the kernel unpacks."""

import stat
from collections.abc import Iterator, Mapping

_MAGIC = "070701"
_ALIGNMENT = 4
_TRAILER = "TRAILER!!!"
_HEADER_FIELDS = 13
_MODE, _LINKS, _SIZE, _NAME_SIZE = 1, 4, 6, 11
"""Indexes of header fields; the others are 0."""


def archive(directories: list[str], files: Mapping[str, bytes]) -> bytes:
    """Return an archive with these directories and files; all files are executable.

    Args:
        directories: names, parents first.
        files: contents by name.
    """
    entries = [
        *(_entry(name, stat.S_IFDIR | 0o755, b"") for name in directories),
        *(_entry(name, stat.S_IFREG | 0o755, content) for name, content in files.items()),
        _entry(_TRAILER, 0, b""),
    ]
    return b"".join(part for entry in entries for part in entry)


def _entry(name: str, mode: int, content: bytes) -> Iterator[bytes]:
    fields = [0] * _HEADER_FIELDS
    fields[_MODE], fields[_LINKS] = mode, 1
    fields[_SIZE], fields[_NAME_SIZE] = len(content), len(name) + 1
    head = (_MAGIC + "".join(f"{field:08x}" for field in fields) + name + "\0").encode("ascii")
    for part in (head, content):
        yield part
        yield bytes(-len(part) % _ALIGNMENT)
