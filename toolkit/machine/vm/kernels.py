"""Kernels for virtual machines, as built by ``msgrlab images build vm``."""

from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.cache import default_root
from toolkit.machine.private import check_own

KERNELS = ("bookworm", "trixie")
"""Debian suites whose kernels can be booted; the first one is the default."""
IMAGE = "vm"
"""Name of the image with the default kernel; others are ``vm:SUITE``."""
READY = "release"
"""File that marks a complete image; it contains the release of the kernel."""
VMLINUX, BUSYBOX, EARLY, MODULES = "vmlinux", "busybox", "early", "modules"
"""Names in an image: kernel, BusyBox, the modules that the initramfs loads in order, all modules."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, its modules, and the BusyBox of the initramfs."""

    suite: str
    release: str
    """Release, as ``uname -r`` prints it."""
    directory: Path

    @property
    def vmlinux(self) -> Path:
        """The kernel file that QEMU loads."""
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
    def modules(self) -> Path:
        """Directory that the guest mounts as ``/lib/modules``."""
        return self.directory / MODULES


def image_name(suite: str) -> str:
    """Return the name of an image for ``msgrlab images``: ``vm``, or ``vm:trixie``."""
    return IMAGE if suite == KERNELS[0] else f"{IMAGE}:{suite}"


def image_directory(suite: str, root: Path | None = None) -> Path:
    """Return the directory of a kernel's image, whether it exists or not."""
    return (root or default_root()) / f"vm-{suite}"


def is_ready(directory: Path) -> bool:
    """True if the image of a kernel exists and is complete."""
    return (directory / READY).exists()


def check_suite(suite: str) -> str:
    """Return the suite if there is a kernel of it.

    Raises:
        LocalError: there is none.
    """
    if suite not in KERNELS:
        raise LocalError(f"no kernel {suite!r}; known: {', '.join(KERNELS)}")
    return suite


def find(suite: str = KERNELS[0], root: Path | None = None) -> Kernel:
    """Return the kernel of a Debian suite.

    Args:
        suite: one of :data:`KERNELS`.
        root: directory of images; ``MSGRLAB_IMAGES`` or the user's cache unless given.

    Raises:
        LocalError: there is no such suite, or another user can change the image, which root boots.
        Unsupported: the image has not been built; the message names the command.
    """
    directory = image_directory(check_suite(suite), root)
    if not is_ready(directory):
        raise Unsupported(f"no kernel in {directory}: msgrlab images build {image_name(suite)}")
    check_own(directory, "image")
    return Kernel(suite, (directory / READY).read_text().strip(), directory)
