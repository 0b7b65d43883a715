"""Mounts, as the kernel lists them for this process."""

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
"""Index of the mount point in a line of mountinfo."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""Octal escapes of spaces, tabs, newlines and backslashes in mountinfo."""


def mounts_below(path: Path | str) -> list[str]:
    """Return the mount points at a path and below it, in the order in which they were mounted."""
    root = os.path.realpath(path)
    return [each for each in _mount_points() if each == root or each.startswith(root.rstrip("/") + "/")]


def _mount_points() -> list[str]:
    lines = _MOUNTS.read_bytes().splitlines()
    return [
        os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), line.split(b" ")[_MOUNT_POINT]))
        for line in lines
    ]


def mount_id(descriptor: int) -> str:
    """Return the id of the mount that an open file is on; a bind mount of the same device has another id."""
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "mnt_id":
            return value.strip()
    raise OSError(f"/proc/self/fdinfo/{descriptor} has no mnt_id")
