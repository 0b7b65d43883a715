"""Micro-VMs: run a program with Debian's kernel and this machine's files, where the kernel here lacks a feature.

The kernel boots with this machine's root file system, read-only below an overlay in memory. So the guest has the
same programs, the same Python and the same paths; files that it writes are lost, except in one directory. QEMU
runs at native speed with KVM; without KVM the processor is emulated, and Python is about twenty times slower.
User-mode Linux (the kernel ``uml``) needs no KVM, but has no RDMA.

::

    from toolkit.machine import vm
    result = vm.run(["uname", "-r"])
    print(result.code, result.stdout)  # 0 6.1.0-50-amd64

:class:`Machine` runs several programs in one guest, so that only the first one waits for a boot.

The kernel is an image (:mod:`toolkit.cluster.images.kernel`), built by ``msgrlab images build vm``.
"""

from toolkit.machine.vm.choice import complete, fastest_first
from toolkit.machine.vm.kernels import KERNELS, Kernel, find
from toolkit.machine.vm.machine import MEMORY_MIB, Machine, Result, TimedOut
from toolkit.machine.vm.places import Place, sweep
from toolkit.machine.vm.probe import probe
from toolkit.machine.vm.program import run

__all__ = [
    "KERNELS",
    "MEMORY_MIB",
    "Kernel",
    "Machine",
    "Place",
    "Result",
    "TimedOut",
    "complete",
    "fastest_first",
    "find",
    "probe",
    "run",
    "sweep",
]
