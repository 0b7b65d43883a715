"""The kernels that msgrlab's own programs get in virtual machines.

User-mode Linux is the fastest one without KVM, but it has no RDMA, and its nftables have rules for bridges only:
no partitions, refusals, redirections and translations of addresses.
"""

from toolkit.errors import Unsupported
from toolkit.machine.kvm import kvm
from toolkit.machine.vm import trial
from toolkit.machine.vm.engines import bootable, programs
from toolkit.machine.vm.kernels import KERNELS, USER_MODE, VARIABLE, Kernel, find, image_directory, is_ready, named


def complete(*, needs_rdma: bool = False) -> Kernel:
    """Return the kernel that :data:`~toolkit.machine.vm.kernels.VARIABLE` names, or else one that has everything.

    Args:
        needs_rdma: True if the programs need RDMA devices.

    Raises:
        LocalError: the variable names no kernel, or another user can change the image.
        Unsupported: a program or the image is missing, or the kernel that is named has no RDMA.
    """
    name = named()
    if name == USER_MODE and needs_rdma:
        raise Unsupported(f"user-mode Linux has no RDMA devices: unset {VARIABLE}, or set it to {KERNELS[0]}")
    return bootable(name)


def fastest_first(*, needs_rdma: bool = False) -> list[Kernel]:
    """Return the kernels to try, for programs that report what a kernel lacks: the fastest one first.

    Without KVM that is user-mode Linux, if its image exists and boots here. Arguments and errors are those of
    :func:`complete`.
    """
    if named() or needs_rdma or kvm().available or not _boots_user_mode():
        return [complete(needs_rdma=needs_rdma)]
    with_everything = [find(KERNELS[0])] if is_ready(image_directory(KERNELS[0])) else []
    return [find(USER_MODE), *with_everything]


def _boots_user_mode() -> bool:
    is_there = programs(USER_MODE).available and is_ready(image_directory(USER_MODE))
    return is_there and not trial.why_not(find(USER_MODE))
