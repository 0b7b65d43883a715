"""QEMU's command line for a virtual machine."""

from pathlib import Path

from toolkit.machine.kvm import kvm
from toolkit.machine.vm.guest import BYTECODE, PORT, WITH_BYTECODE
from toolkit.machine.vm.kernels import Kernel
from toolkit.machine.vm.networks import Attachment

_BOOT = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check net.ifnames=0"
"""Without ``no_timer_check`` a guest that is emulated on a busy machine may find that its timer does not work."""
_UNTIL_PARENT_ENDS = ("setpriv", "--pdeathsig", "KILL")


def command_line(
    kernel: Kernel,
    initrd: Path,
    console: Path,
    shares: dict[str, Path],
    memory_mib: int,
    bytecode: Path | None = None,
    attachment: Attachment | None = None,
    port: int | None = None,
) -> list[str]:
    """Return the command that runs QEMU; it exits when the guest powers off, and dies with its parent.

    Its standard input is the guest's second serial port.

    Args:
        kernel: kernel to boot.
        initrd: file of the initramfs.
        console: file for the kernel's console output.
        shares: directories that the guest may write to, by the tags that it mounts them by.
        memory_mib: memory of the guest, in MiB.
        bytecode: directory to show above the host's files, if there is one.
        attachment: the guest's network, if it has one; QEMU inherits its descriptor.
        port: descriptor of a connected socket that becomes the guest's port :data:`PORT`, if there is one.
    """
    boot = _BOOT if bytecode is None else f"{_BOOT} {WITH_BYTECODE}"
    above = () if bytecode is None else _share(BYTECODE, bytecode, "readonly=on")
    accelerators = ("kvm", "tcg") if kvm().available else ("tcg",)
    return [
        *_UNTIL_PARENT_ENDS,
        *("qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-smp", "1", "-m", str(memory_mib)),
        *(word for each in accelerators for word in ("-accel", each)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-chardev", f"file,id=console,path={_escaped(console)}", "-serial", "chardev:console"),
        *("-chardev", "stdio,id=jobs,signal=off", "-serial", "chardev:jobs"),
        *("-kernel", str(kernel.vmlinux), "-initrd", str(initrd), "-append", boot),
        *_share("root", Path("/"), "readonly=on", "multidevs=remap"),
        *_share("modules", kernel.modules, "readonly=on"),
        *above,
        *(() if attachment is None else _interface(attachment)),
        *(() if port is None else _socket(port)),
        *(word for tag, directory in shares.items() for word in _share(tag, directory, "multidevs=remap")),
    ]


def _socket(descriptor: int) -> tuple[str, ...]:
    port = f"virtserialport,chardev=port,name={PORT}"
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
