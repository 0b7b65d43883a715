"""Probe for virtual machines: QEMU, the programs that it needs, and a kernel."""

import os
import platform
import shutil
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.capability import Finding, not_installed, own_command
from toolkit.machine.kvm import kvm
from toolkit.machine.programs import qemu
from toolkit.machine.vm.kernels import KERNELS, find

SYSTEM_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))
"""Directories of system programs, which the PATH of ordinary users may lack."""
_PROGRAMS = {"modprobe": "kmod", "setpriv": "util-linux"}


def with_system_path() -> str:
    """Return this process's PATH with the directories of system programs appended."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH", ""), SYSTEM_PATH)))


def programs() -> Finding:
    """Find the programs that virtual machines need; the detail is QEMU's version."""
    if platform.machine() != "x86_64":
        return Finding(available=False, detail=f"not for {platform.machine()} processors")
    emulator = qemu()
    if not emulator.available and not emulator.packages:
        return emulator
    missing = {
        name: package for name, package in _PROGRAMS.items() if shutil.which(name, path=with_system_path()) is None
    }
    if missing or not emulator.available:
        details = [*([] if emulator.available else [emulator.detail]), *(f"no {name}" for name in missing)]
        return not_installed(", ".join(details), tuple(sorted({*emulator.packages, *missing.values()})))
    return emulator


def require_programs() -> None:
    """Check that QEMU and the programs that it needs are installed.

    Raises:
        Unsupported: one is missing; the message has the command that installs it.
    """
    finding = programs()
    if not finding.available:
        raise Unsupported(": ".join(filter(None, (f"virtual machines: {finding.detail}", finding.remedy))))


def probe(suite: str = KERNELS[0], root: Path | None = None) -> Finding:
    """Find out whether a virtual machine with the kernel of this suite can run; boots nothing."""
    found = programs()
    build = f"{own_command()} images build vm"
    try:
        kernel = find(suite, root)
    except Unsupported as error:
        detail = str(error).partition(": ")[0]
        if not found.available and not found.packages:
            return found
        if found.packages:
            return Finding(False, f"{found.detail}, {detail}", found.packages, (build,))
        return Finding(available=False, detail=detail, commands=(build,))
    except LocalError as error:
        return Finding(available=False, detail=str(error))
    if not found.available:
        return found
    speed = "KVM" if kvm().available else "emulated (no KVM)"
    return Finding(available=True, detail=f"QEMU {found.detail}, Linux {kernel.release}, {speed}")
