"""The engine of each kernel, and whether this machine has the programs that it needs."""

import platform

from toolkit.errors import Unsupported
from toolkit.machine.capability import Finding
from toolkit.machine.vm.engine import Engine
from toolkit.machine.vm.kernels import KERNELS, USER_MODE, Kernel, chosen, find
from toolkit.machine.vm.qemu import Qemu
from toolkit.machine.vm.uml import Uml

_QEMU, _UML = Qemu(), Uml()


def engine_named(kernel: str) -> Engine:
    """Return the engine that boots the kernel of this name."""
    return _UML if kernel == USER_MODE else _QEMU


def engine_of(kernel: Kernel) -> Engine:
    """Return the engine that boots a kernel."""
    return engine_named(kernel.name)


def programs(kernel: str = KERNELS[0]) -> Finding:
    """Find the programs that virtual machines with this kernel need; the detail has their version."""
    if platform.machine() != "x86_64":
        return Finding(available=False, detail=f"not for {platform.machine()} processors")
    return engine_named(kernel).programs()


def require_programs(kernel: str) -> None:
    """Check that the programs are installed that virtual machines with this kernel need.

    Raises:
        Unsupported: one is missing; the message has the command that installs it.
    """
    finding = programs(kernel)
    if not finding.available:
        raise Unsupported(": ".join(filter(None, (f"virtual machines: {finding.detail}", finding.remedy))))


def bootable(kernel: str = "") -> Kernel:
    """Return a kernel whose programs are installed; missing programs are named before a missing image.

    Args:
        kernel: one of :data:`~toolkit.machine.vm.kernels.KERNELS`; unless given, that of :func:`.chosen`.

    Raises:
        LocalError: there is no such kernel, or another user can change its image.
        Unsupported: a program is missing, or the image has not been built; the message has the command for it.
    """
    name = chosen(kernel)
    require_programs(name)
    return find(name)
