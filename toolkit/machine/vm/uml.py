"""User-mode Linux: a kernel that is a process of the host, at native speed without KVM.

It has one processor and no RDMA. The process is confined (:mod:`toolkit.machine.vm.confined`), since the guest
reads the host's files with its rights.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import ClassVar

from messenger.compat import override
from toolkit.machine.capability import Finding, not_installed
from toolkit.machine.system_path import with_system_path
from toolkit.machine.vm import confined
from toolkit.machine.vm.engine import (
    BYTECODE,
    INITRAMFS,
    INTERFACE,
    MODULES,
    PORT,
    ROOT,
    WITH_BYTECODE,
    Boot,
    Engine,
)

_BOOT = ("quiet", "panic=-1", "noreboot", "seccomp=auto", "con=null", "con0=null,fd:2", "ssl=null")
"""With seccomp, page faults take two thirds of the time. The kernel is not isolated from its programs then, which
does not matter to the host, since its own process is confined."""
_JOBS, _PORT_LINE = 1, 2
"""Numbers of serial lines."""
_INTERFACE = "vec0"
"""The kernel's name of the guest's interface."""
_KERNEL, _LIBRARIES, _LOADER = "linux", "lib", "lib64"
"""Names in the root directory of the process; the loader's is that in the kernel's file."""
_HIDDEN = ("/dev", "/proc", "/run", "/sys")
"""Directories of the host whose files make sense on the host only."""
_SPARE_MIB = 64
"""Memory for files of the process beside the guest's memory, in MiB."""


class Uml(Engine):
    """User-mode Linux with serial lines; the host's files come by hostfs."""

    jobs: ClassVar[str] = f"/dev/ttyS{_JOBS}"
    takes_headers: ClassVar[bool] = False
    needs_trial: ClassVar[bool] = True

    @override
    def programs(self) -> Finding:
        if shutil.which("modprobe", path=with_system_path()) is None:
            return not_installed("no modprobe", ("kmod",))
        return Finding(available=True, detail="user-mode Linux")

    @override
    def speed(self) -> str:
        return "native speed, no RDMA"

    @override
    def command_line(self, boot: Boot) -> list[str]:
        root = boot.directory / "root"
        root.mkdir(mode=0o700, exist_ok=True)
        libraries = boot.kernel.libraries
        shown = {
            _KERNEL: boot.kernel.vmlinux,
            _LIBRARIES: libraries,
            _LOADER: libraries,
            INITRAMFS: boot.directory / INITRAMFS,
            MODULES: boot.kernel.modules,
            **({} if boot.bytecode is None else {BYTECODE: boot.bytecode}),
            **boot.shares,
        }
        plan = {
            "argv": [f"/{_KERNEL}", *_words(boot)],
            "environment": {"HOME": "/tmp", "TMPDIR": "/tmp"},  # noqa: S108 - of the process's own root directory
            "directory": str(root),
            "memory_mib": boot.memory_mib + _SPARE_MIB,
            "host": ROOT,
            "binds": {name: str(path) for name, path in shown.items()},
            "writable": [*boot.shares],
            "hidden": _HIDDEN,
        }
        return [sys.executable, "-I", "-S", str(Path(confined.__file__)), json.dumps(plan)]

    @override
    def mounted(self, tag: str, *, is_writable: bool = False) -> str:
        return f"-t hostfs -o {'rw' if is_writable else 'ro'},/{tag} none"

    @override
    def overlay(self) -> str:
        """Return the option without which root in the guest would become nobody in programs such as ``mount``.

        In the user namespace of an ordinary user, files of the host's root belong to nobody.
        """
        return "nosuid," if os.geteuid() else ""

    @override
    def interface(self, modprobe: str) -> list[str]:
        return [f"$B ip link set {_INTERFACE} name {INTERFACE}"]

    @override
    def port(self, modprobe: str) -> list[str]:
        return [f"$B ln -s /dev/ttyS{_PORT_LINE} {PORT}"]

    @override
    def settings(self) -> list[str]:
        """Return the lines that shorten the time after which output in files reaches the host, to 20 ms."""
        return [f"echo {number} > /proc/sys/vm/dirty_{name}_centisecs" for name, number in _WRITE_BACK.items()]


_WRITE_BACK = {"expire": 1, "writeback": 2}


def _words(boot: Boot) -> list[str]:
    """Return the kernel's command line."""
    words = [*_BOOT, f"mem={boot.memory_mib}M", f"initrd=/{INITRAMFS}", f"ssl{_JOBS}=fd:0,null"]
    if boot.bytecode is not None:
        words.append(WITH_BYTECODE)
    if boot.port is not None:
        words.append(f"ssl{_PORT_LINE}=fd:{boot.port},fd:{boot.port}")
    if (attachment := boot.attachment) is not None:
        words.append(f"vec0:transport=fd,fd={attachment.descriptor},vec=0,mac={attachment.mac}")
    return words
