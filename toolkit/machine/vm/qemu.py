"""QEMU, which boots kernels of any Debian release: at native speed with KVM, else it emulates the processor."""

import shutil
from pathlib import Path
from typing import ClassVar

from messenger.compat import override
from toolkit.machine.capability import Finding, not_installed
from toolkit.machine.kvm import kvm
from toolkit.machine.programs import qemu
from toolkit.machine.system_path import with_system_path
from toolkit.machine.vm.engine import (
    BYTECODE,
    CONSOLE,
    INITRAMFS,
    INTERFACE,
    MODULES,
    PORT,
    ROOT,
    WITH_BYTECODE,
    Boot,
    Engine,
)
from toolkit.machine.vm.networks import Attachment

_BOOT = "console=ttyS0 quiet panic=-1 mitigations=off init_on_alloc=0 no_timer_check net.ifnames=0"
"""Without ``no_timer_check`` a guest that is emulated on a busy machine may find that its timer does not work.

Debian's kernels clear each page and object when they allocate it (``init_on_alloc``), which a guest that is thrown
away does not need.
"""
_EMULATED = "max,erms=off,fsrm=off,la57=off,smap=off,smep=off"
"""The processor without KVM: all features, except those that take an emulated kernel half of its time.

With ERMS and FSRM the kernel copies and clears memory by ``rep movsb`` and ``rep stosb``, which QEMU emulates byte
by byte. LA57 adds a level to page tables. SMAP and SMEP check each access of the kernel to memory of a process.
"""
_UNTIL_PARENT_ENDS = ("setpriv", "--pdeathsig", "KILL")
_PROGRAMS = {"modprobe": "kmod", "setpriv": "util-linux"}
_9P = "-t 9p -o trans=virtio,version=9p2000.L,msize=512000"
_PORT_NAME = "msgrlab.port"


class Qemu(Engine):
    """QEMU with virtio devices; the host's files come by 9p."""

    jobs: ClassVar[str] = "/dev/ttyS1"
    takes_headers: ClassVar[bool] = True

    @override
    def programs(self) -> Finding:
        emulator = qemu()
        if not emulator.available and not emulator.packages:
            return emulator
        missing = {
            name: package
            for name, package in _PROGRAMS.items()
            if shutil.which(name, path=with_system_path()) is None
        }
        if missing or not emulator.available:
            details = [*([] if emulator.available else [emulator.detail]), *(f"no {name}" for name in missing)]
            return not_installed(", ".join(details), tuple(sorted({*emulator.packages, *missing.values()})))
        return Finding(available=True, detail=f"QEMU {emulator.detail}")

    @override
    def speed(self) -> str:
        return "KVM" if kvm().available else "emulated (no KVM)"

    @override
    def command_line(self, boot: Boot) -> list[str]:
        words = _BOOT if boot.bytecode is None else f"{_BOOT} {WITH_BYTECODE}"
        shares = (_share(tag, directory, "multidevs=remap") for tag, directory in boot.shares.items())
        above = () if boot.bytecode is None else _share(BYTECODE, boot.bytecode, "readonly=on")
        accelerators, processor = (("kvm", "tcg"), "max") if kvm().available else (("tcg",), _EMULATED)
        console = _escaped(boot.directory / CONSOLE)
        return [
            *_UNTIL_PARENT_ENDS,
            *("qemu-system-x86_64", "-M", "q35", "-cpu", processor, "-smp", "1", "-m", str(boot.memory_mib)),
            *(word for each in accelerators for word in ("-accel", each)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"),
            *("-chardev", "stdio,id=jobs,signal=off", "-serial", "chardev:jobs"),
            *("-kernel", str(boot.kernel.vmlinux), "-initrd", str(boot.directory / INITRAMFS), "-append", words),
            *_share(ROOT, Path("/"), "readonly=on", "multidevs=remap"),
            *_share(MODULES, boot.kernel.modules, "readonly=on"),
            *above,
            *(() if boot.attachment is None else _interface(boot.attachment)),
            *(() if boot.port is None else _socket(boot.port)),
            *(word for share in shares for word in share),
        ]

    @override
    def mounted(self, tag: str, *, is_writable: bool = False) -> str:
        return f"{_9P},access=any,cache=none {tag}" if is_writable else f"{_9P},ro,cache=loose {tag}"

    @override
    def interface(self, modprobe: str) -> list[str]:
        return [
            f"{modprobe} virtio_net",
            f"for attempt in $($B seq 100); do [ -e /sys/class/net/{INTERFACE} ] && break; $B usleep 50000; done",
        ]

    @override
    def port(self, modprobe: str) -> list[str]:
        """Return the lines that find the port by its name, which it gets after its driver has begun."""
        return [
            f"{modprobe} virtio_console",
            "for attempt in $($B seq 1500); do",
            f"    name=$($B grep -lx {_PORT_NAME} /sys/class/virtio-ports/*/name 2> /dev/null)",
            f'    [ -n "$name" ] && name=${{name%/name}} && $B ln -s /dev/${{name##*/}} {PORT} && break',
            "    $B usleep 20000",
            "done",
        ]


def _socket(descriptor: int) -> tuple[str, ...]:
    port = f"virtserialport,chardev=port,name={_PORT_NAME}"
    chardev = f"socket,id=port,fd={descriptor}"
    return "-device", "virtio-serial-pci", "-chardev", chardev, "-device", port


def _interface(attachment: Attachment) -> tuple[str, ...]:
    device = f"virtio-net-pci,netdev=network,mac={attachment.mac},romfile="
    return "-netdev", f"tap,id=network,fd={attachment.descriptor}", "-device", device


def _share(tag: str, directory: Path, *options: str) -> tuple[str, ...]:
    backend = ",".join((f"local,id={tag},path={_escaped(directory)},security_model=none", *options))
    return "-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"


def _escaped(path: Path) -> str:
    """Escape a path as a value of an option, where commas separate values."""
    return str(path).replace(",", ",,")
