"""The probe of KVM: it runs a guest of two instructions.

A device that opens is not enough: where KVM itself runs inside a guest, it may emulate instructions one by one and
fail at the first that it does not support. The guest here executes one that its emulator lacks (x87 FLD1), then
halts.
"""

import ctypes
import mmap
import os
import platform
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path
from struct import pack, pack_into, unpack_from

from toolkit.machine.capability import Finding

_GUEST = b"\xd9\xe8\xf4"  # fld1; hlt
_PAGE_BYTES = 4096

# <linux/kvm.h>: ioctl numbers and layouts of x86-64
_CREATE_VM = 0xAE01
_GET_VCPU_MMAP_SIZE = 0xAE04
_CREATE_VCPU = 0xAE41
_SET_USER_MEMORY_REGION = 0x4020AE46
_RUN = 0xAE80
_SET_REGS = 0x4090AE82
_GET_SREGS = 0x8138AE83
_SET_SREGS = 0x4138AE84
_REGS_BYTES, _RIP_OFFSET, _RFLAGS_OFFSET = 144, 128, 136
_SREGS_BYTES = 312
_EXIT_REASON_OFFSET = 8
_EXIT_HLT = 5


def kvm(device: Path = Path("/dev/kvm")) -> Finding:
    """Find out whether virtual machines run with hardware support."""
    if not device.exists():
        return Finding(available=False, detail=f"there is no {device}")
    try:
        with ExitStack() as stack:
            handle = _owned(stack, os.open(device, os.O_RDWR | os.O_CLOEXEC))
            if platform.machine() != "x86_64":
                return Finding(available=True, detail=f"{device} opens")
            reason = _exit_reason(stack, handle)
    except OSError as error:
        return Finding(available=False, detail=f"{device}: {error.strerror}")
    if reason != _EXIT_HLT:
        return Finding(available=False, detail=f"{device} opens, but a guest dies in it (exit reason {reason})")
    return Finding(available=True, detail="a guest ran")


def _exit_reason(stack: ExitStack, device: int) -> int:
    """Run the guest in real mode at address 0; returns its exit reason (KVM_EXIT_...)."""
    machine = _owned(stack, ioctl(device, _CREATE_VM, 0))
    memory = mmap.mmap(-1, _PAGE_BYTES)
    memory[: len(_GUEST)] = _GUEST
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ioctl(machine, _SET_USER_MEMORY_REGION, pack("<IIQQQ", 0, 0, 0, _PAGE_BYTES, address))
    processor = _owned(stack, ioctl(machine, _CREATE_VCPU, 0))
    shared = stack.enter_context(mmap.mmap(processor, ioctl(device, _GET_VCPU_MMAP_SIZE)))
    segments = bytearray(_SREGS_BYTES)
    ioctl(processor, _GET_SREGS, segments)
    pack_into("<QIH", segments, 0, 0, 0xFFFF, 0)  # code segment: base, limit, selector
    ioctl(processor, _SET_SREGS, segments)
    registers = bytearray(_REGS_BYTES)
    pack_into("<Q", registers, _RIP_OFFSET, 0)
    pack_into("<Q", registers, _RFLAGS_OFFSET, 2)  # the bit that is always set
    ioctl(processor, _SET_REGS, registers)
    ioctl(processor, _RUN, 0)
    return int(unpack_from("<I", shared, _EXIT_REASON_OFFSET)[0])


def _owned(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
