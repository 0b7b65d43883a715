"""Micro-VMs: a program on Debian's kernel and this machine's files, for what the kernel here lacks.

QEMU boots the kernel with this machine's root file system, read-only and below a layer of memory. So the guest
has the same programs, the same Python and the same paths; what it writes is gone with it, but for one directory.
It has KVM's speed where KVM works. Without KVM the processor is emulated, and Python is some twenty times slower.

::

    from toolkit.machine import vm

    result = vm.run(["uname", "-r"])
    print(result.code, result.stdout)  # 0 6.1.0-50-amd64

The kernel is an image (:mod:`toolkit.cluster.images.kernel`): ``msgrlab images build vm``.
"""

from toolkit.machine.vm.kernels import KERNELS, Kernel, find
from toolkit.machine.vm.places import sweep
from toolkit.machine.vm.probe import probe
from toolkit.machine.vm.running import MEMORY_MIB, Result, TimedOut, run

__all__ = ["KERNELS", "MEMORY_MIB", "Kernel", "Result", "TimedOut", "find", "probe", "run", "sweep"]
