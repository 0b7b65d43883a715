"""Kernels for virtual machines, as built by ``msgrlab images build vm``."""

import os
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.cache import default_root
from toolkit.machine.private import check_own

USER_MODE = "uml"
KERNELS = ("bookworm", "trixie", USER_MODE)
"""Kernels that can be booted: of Debian suites, and user-mode Linux; the first one is the default."""
VARIABLE = "MSGRLAB_VM_KERNEL"
"""Environment variable with the kernel to boot where none is given."""
IMAGE = "vm"
"""Name of the image with the default kernel; others are ``vm:KERNEL``."""
READY = "release"
"""File that marks a complete image; it contains the release of the kernel."""
VMLINUX, BUSYBOX, EARLY, MODULES, LIBRARIES = "vmlinux", "busybox", "early", "modules", "libraries"
"""Names in an image: kernel, BusyBox, the modules that the initramfs loads in order, all modules, and the C
library that user-mode Linux needs."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, its modules, and the BusyBox of the initramfs."""

    name: str
    """One of :data:`KERNELS`."""
    release: str
    """Release, as ``uname -r`` prints it."""
    directory: Path

    @property
    def vmlinux(self) -> Path:
        """The kernel file: QEMU loads it, user-mode Linux is a program."""
        return self.directory / VMLINUX

    @property
    def busybox(self) -> Path:
        """BusyBox, statically linked."""
        return self.directory / BUSYBOX

    @property
    def early_modules(self) -> list[Path]:
        """Modules that are needed to mount the host's files, in load order."""
        return sorted((self.directory / EARLY).iterdir())

    @property
    def libraries(self) -> Path:
        """Directory with the C library of user-mode Linux."""
        return self.directory / LIBRARIES

    @property
    def modules(self) -> Path:
        """Directory that the guest mounts as ``/lib/modules``."""
        return self.directory / MODULES


def image_name(kernel: str) -> str:
    """Return the name of an image for ``msgrlab images``: ``vm``, or ``vm:trixie``."""
    return IMAGE if kernel == KERNELS[0] else f"{IMAGE}:{kernel}"


def image_directory(kernel: str, root: Path | None = None) -> Path:
    """Return the directory of a kernel's image, whether it exists or not."""
    return (root or default_root()) / f"vm-{kernel}"


def is_ready(directory: Path) -> bool:
    """True if the image of a kernel exists and is complete."""
    return (directory / READY).exists()


def check_name(kernel: str) -> str:
    """Return the name of a kernel if it is known.

    Raises:
        LocalError: there is none.
    """
    if kernel not in KERNELS:
        raise LocalError(f"no kernel {kernel!r}; known: {', '.join(KERNELS)}")
    return kernel


def chosen(kernel: str = "") -> str:
    """Return the name of a kernel; unless given, that of :data:`VARIABLE` or the default one.

    Raises:
        LocalError: there is no such kernel.
    """
    return check_name(kernel or named() or KERNELS[0])


def named() -> str:
    """Return the kernel that the environment names; empty if it names none.

    Raises:
        LocalError: there is no such kernel.
    """
    name = os.environ.get(VARIABLE, "")
    return name and check_name(name)


def find(kernel: str = "", root: Path | None = None) -> Kernel:
    """Return a kernel.

    Args:
        kernel: one of :data:`KERNELS`; unless given, that of :data:`VARIABLE` or the default one.
        root: directory of images; ``MSGRLAB_IMAGES`` or the user's cache unless given.

    Raises:
        LocalError: there is no such kernel, or another user can change the image, which root boots.
        Unsupported: the image has not been built; the message names the command.
    """
    directory = image_directory(kernel := chosen(kernel), root)
    if not is_ready(directory):
        raise Unsupported(f"no kernel in {directory}: msgrlab images build {image_name(kernel)}")
    check_own(directory, "image")
    return Kernel(kernel, (directory / READY).read_text().strip(), directory)
