"""Trials of kernels that are processes of this machine: on some processors only a boot shows whether it works."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.machine.vm.kernels import READY, Kernel
from toolkit.machine.vm.machine import Machine

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_REASON_CHARS = 200


def why_not(kernel: Kernel) -> str:
    """Return why a kernel does not boot here; empty if it does.

    It is booted once for each boot of this machine; the answer is kept in a file beside the image.
    """
    path = answer_file(kernel.directory)
    about = _about(kernel)
    with suppress(OSError, ValueError):
        kept = json.loads(path.read_text())
        if kept["about"] == about:
            return str(kept["reason"])
    reason = _tried(kernel)
    with suppress(OSError):  # another user's image
        path.write_text(json.dumps({"about": about, "reason": reason}))
    return reason


def answer_file(directory: Path) -> Path:
    """Return the file with the answer for an image."""
    return directory.with_name(f"{directory.name}.trial")


def _about(kernel: Kernel) -> list[Any]:
    """Return what the answer depends on: the image, the user, and the kernel and processor of this machine."""
    return [kernel.release, (kernel.directory / READY).stat().st_mtime_ns, os.geteuid(), _BOOT_ID.read_text()]


def _tried(kernel: Kernel) -> str:
    try:
        with Machine(kernel=kernel) as machine:
            machine.run(["true"])
    except LocalError as error:
        return " ".join(str(error).split())[:_REASON_CHARS]
    return ""
