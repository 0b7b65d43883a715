"""Kernels for virtual machines, from Debian's packages: see :mod:`toolkit.machine.vm`.

An image has the kernel, its modules, and BusyBox for the initramfs; that of user-mode Linux also has the C library
of its suite, which may be newer than this machine's. Building it does not need root. The modules are those of the
package, without drivers for hardware that virtual machines do not have.
"""

import lzma
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import zstandard

from messenger.errors import LocalError
from toolkit.cluster.images.archive import Archive, Suite
from toolkit.cluster.images.work import Report, Work, alone, silent, whole
from toolkit.errors import Unsupported
from toolkit.machine.private import check_own
from toolkit.machine.system_path import SYSTEM_PATH
from toolkit.machine.vm import kernels
from toolkit.machine.vm.kernels import BUSYBOX, EARLY, LIBRARIES, MODULES, READY, VMLINUX, is_ready

__all__ = ["NAMES", "directory", "find_or_build", "is_ready", "release"]

NAMES = tuple(map(kernels.image_name, kernels.KERNELS))
_KERNEL_BY_NAME = dict(zip(NAMES, kernels.KERNELS, strict=True))
_BUSYBOX_PACKAGE = "busybox-static"


@dataclass(frozen=True, slots=True)
class _Source:
    """The packages of a kernel."""

    suite: Suite
    package: str
    parts: re.Pattern[str]
    """Names of the packages to download, among that one and its dependencies."""
    kernel: str
    """Pattern of the kernel's path in the packages."""
    modules: str
    """Directory of the modules in the packages, in which each kernel has one of its own."""
    early: tuple[str, ...]
    """Modules that are needed to mount the host's files."""
    libraries: tuple[str, ...] = ()
    """Paths of the C library in the packages."""

    def has(self, package: str) -> bool:
        """True if a package is one of those to download."""
        return package == _BUSYBOX_PACKAGE or self.parts.fullmatch(package) is not None


def _debian(suite: Suite) -> _Source:
    """Return the kernel of a suite for virtual machines; in older ones the first package has everything."""
    parts = re.compile(r"linux-(image|binary|modules)-\d\S*")
    early = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
    return _Source(suite, "linux-image-amd64", parts, "boot/vmlinuz-*", "lib/modules", early)


_SOURCES = {
    "bookworm": _debian(Suite("bookworm", "20260901T000000Z")),
    "trixie": _debian(Suite("trixie", "20261001T000000Z")),
    kernels.USER_MODE: _Source(
        Suite("sid", "20261030T120000Z"),  # the one of trixie and older suites panics where the processor has AMX
        "user-mode-linux",
        re.compile(r"user-mode-linux|libc6|libgcc-s1"),
        "usr/bin/linux.uml",
        "lib/uml/modules",
        ("overlay",),
        tuple(f"lib/x86_64-linux-gnu/{name}" for name in ("ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1")),
    ),
}
_NEEDLESS = ("drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging", "drivers/iio", "sound")
_TOOLS = {"apt-get": "apt", "dpkg-deb": "dpkg", "depmod": "kmod", "modprobe": "kmod"}
_WITH_PATH = ("env", f"PATH={SYSTEM_PATH}", "LC_ALL=C")
_ELF = b"\x7fELF"
_MAGICS = {b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""First bytes of compressed data, and the suffix of such files."""


def directory(name: str, root: Path | None = None) -> Path:
    """Return the directory of an image, whether it exists or not."""
    return kernels.image_directory(_KERNEL_BY_NAME[name], root)


def release(path: Path) -> str:
    """Return the release of the kernel in an image, as ``uname -r`` prints it."""
    return (path / READY).read_text().strip()


def find_or_build(
    name: str,
    root: Path | None = None,
    announce: Report = print,
    report: Report = silent,
    archive: Archive | None = None,
) -> Path:
    """Return the directory of a kernel's image, and build it unless it exists.

    Args:
        name: one of :data:`NAMES`.
        root: directory of images.
        announce: called with one line if the image has to be built.
        report: called with each step of the build.
        archive: Debian's archive; :meth:`Archive.wanted` unless given.

    Raises:
        LocalError: a program failed; its output is in a log beside the image.
        Unsupported: a program is missing, or the keys of Debian's archive.
    """
    wanted = _SOURCES[_KERNEL_BY_NAME[name]]
    path = directory(name, root)
    if not is_ready(path):
        _check_tools()
        source = archive or Archive.wanted()
        keys = source.keys()
        with alone(path, announce):
            check_own(path.parent, "directory of images")
            if not is_ready(path):
                suite = wanted.suite
                announce(
                    f"making a kernel for virtual machines in {path}: apt fetches packages of Debian {suite.name}"
                    f" from {source.mirror_of(suite)} and verifies them with {keys} (100 MB)"
                )
                with whole(path) as unfinished:
                    work = Work(path.with_name(path.name + ".log"), report)
                    made = _make(work, source, wanted, unfinished)
                    (unfinished / READY).write_text(made + "\n")
    check_own(path, "image")
    return path


def _check_tools() -> None:
    for name, package in _TOOLS.items():
        if shutil.which(name, path=SYSTEM_PATH) is None:
            raise Unsupported(f"no {name} here (Debian: apt-get install {package})")


def _make(work: Work, archive: Archive, wanted: _Source, to: Path) -> str:
    """Build the image; returns the kernel's release."""
    scratch = to / "scratch"
    names = (wanted.package, _BUSYBOX_PACKAGE)
    for package in archive.download(work, wanted.suite, scratch / "apt", names, wanted.has):
        work.run("dpkg-deb", "--extract", str(package), str(scratch / "tree"))
    tree = scratch / "tree"
    (modules,) = (path for path in _merged(tree, wanted.modules).iterdir() if (path / "kernel").is_dir())
    for needless in _NEEDLESS:
        shutil.rmtree(modules / "kernel" / needless, ignore_errors=True)
    made = modules.name
    (to / MODULES).mkdir()
    modules.rename(to / MODULES / made)
    (image,) = tree.glob(wanted.kernel)
    content = image.read_bytes()
    (to / VMLINUX).write_bytes(content if content.startswith(_ELF) else _uncompressed(content))
    (to / VMLINUX).chmod(0o755)
    for name in wanted.libraries:
        (to / LIBRARIES).mkdir(exist_ok=True)
        shutil.copy(_merged(tree, name), to / LIBRARIES)
    shutil.copy(_merged(tree, "bin/busybox"), to / BUSYBOX)
    # depmod and modprobe look for lib/modules below a directory
    (scratch / "base/lib").mkdir(parents=True)
    (scratch / "base/lib/modules").symlink_to(to / MODULES)
    base = str(scratch / "base")
    work.run(*_WITH_PATH, "depmod", "-b", base, made)
    _copy_early_modules(work, wanted.early, base, made, to / EARLY)
    shutil.rmtree(scratch)
    return made


def _merged(tree: Path, path: str) -> Path:
    """Return a path in unpacked packages; some directories are in / or in /usr, depending on the suite."""
    return next((each for each in (tree / path, tree / "usr" / path) if each.exists()), tree / path)


def _copy_early_modules(work: Work, names: tuple[str, ...], base: str, made: str, to: Path) -> None:
    """Copy the modules of the initramfs, uncompressed, with names that sort in load order."""
    to.mkdir()
    order: dict[str, Path] = {}
    for name in names:
        listed = work.run(*_WITH_PATH, "modprobe", "-d", base, "-S", made, "--show-depends", name)
        for line in listed.splitlines():
            verb, _, path = line.partition(" ")
            if verb == "insmod":
                order.setdefault(Path(path.strip()).name.partition(".")[0], Path(path.strip()))
    for number, (name, module) in enumerate(order.items()):
        content = module.read_bytes()
        if module.suffix in _DECOMPRESS:
            content = _DECOMPRESS[module.suffix](content)
        (to / f"{number:02}-{name}.ko").write_bytes(content)


def _uncompressed(image: bytes) -> bytes:
    """Return the uncompressed kernel: without KVM the guest would take 3 s to unpack it.

    Raises:
        LocalError: the image contains none.
    """
    for magic, suffix in _MAGICS.items():
        at = -1
        while (at := image.find(magic, at + 1)) >= 0:
            try:
                kernel = _DECOMPRESS[suffix](image[at:])
            except (lzma.LZMAError, zstandard.ZstdError):
                continue
            if kernel.startswith(_ELF):
                return kernel
    raise LocalError("the package has no kernel that this version can unpack")


def _from_xz(content: bytes) -> bytes:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(content)


def _from_zstd(content: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(content)


_DECOMPRESS = {".xz": _from_xz, ".zst": _from_zstd}
