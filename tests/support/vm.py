"""A small virtual machine with Debian's kernel on this machine's files, for what the kernel here lacks.

QEMU emulates the processor, so that it works everywhere, slowly: Python is some twenty times slower in there. The
kernel comes as a package from Debian's mirror and is kept in a directory for temporary files.
"""

import lzma
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.machine.private import locked, make_private

_DIRECTORY = Path(tempfile.gettempdir()) / f"msgrlab-vm-{os.getuid()}"
_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
"""What mounting this machine's files takes."""
_XZ = b"\xfd7zXZ\x00"
_ELF = b"\x7fELF"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
while read -r module; do $B insmod /modules/$module; done < /modules/order
over=trans=virtio,version=9p2000.L,msize=512000
$B mount -t 9p -o ro,$over,cache=loose root /lower || $B poweroff -f
$B mount -t tmpfs tmpfs /upper; $B mkdir /upper/data /upper/work
$B mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root
for d in proc sys dev; do $B mount --move /$d /root/$d; done
$B mkdir -p /root/share /root/lib/modules /root/dev/pts /root/dev/shm
$B mount -t 9p -o ro,$over,cache=loose modules /root/lib/modules
$B mount -t 9p -o $over,access=any,cache=none share /root/share
$B mount -t devpts devpts /root/dev/pts
for d in dev/shm run; do $B mount -t tmpfs tmpfs /root/$d; done
exec $B switch_root /root /share/init
"""
_SECOND_INIT = f"""#!/bin/sh
export PATH={_PATH} HOME=/root LC_ALL=C.UTF-8
command -v modprobe > /proc/sys/kernel/modprobe
sh /share/command < /dev/null > /share/output 2>&1
echo $? > /share/code
/bin/busybox sync
/bin/busybox poweroff -f
"""


@dataclass(frozen=True)
class Kernel:
    """What a machine boots."""

    image: Path
    initrd: Path
    modules: Path


def run(command: str, directory: Path, *, timeout_s: float = 120.0) -> tuple[int, str]:
    """Run a shell command, as root, in a machine of its own; it may change this machine's files, which forgets it.

    Args:
        command: for ``sh``; it finds Python and everything else where they are here.
        directory: for what passes between the machines; it is ``/share`` there.
        timeout_s: for all of it.

    Returns:
        Its exit code, and what it has printed.
    """
    kernel = _kernel()
    for name, text in (("init", _SECOND_INIT), ("command", command)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    share = ("-fsdev", f"local,id=share,path={directory},security_model=none,multidevs=remap")
    done = subprocess.run(
        [
            *("qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "768"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"),
            *("-kernel", str(kernel.image), "-initrd", str(kernel.initrd)),
            *("-append", "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0"),
            *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-fsdev", f"local,id=modules,path={kernel.modules},security_model=none,readonly=on"),
            *share,
            *(word for tag in ("root", "modules", "share") for word in _device(tag)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    if not (directory / "code").exists():
        raise RuntimeError(f"the machine has not run the command:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int((directory / "code").read_text()), (directory / "output").read_text()


def _device(tag: str) -> Sequence[str]:
    return "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"


def _kernel() -> Kernel:
    """Debian's, made ready when first asked for; root boots it, so nobody else may have put it there."""
    make_private(_DIRECTORY, "directory of virtual machines")
    with locked(_DIRECTORY / ".lock"):
        package = _package()
        ready = _DIRECTORY / f"{package}-{zlib.crc32(_FIRST_INIT.encode()):08x}"  # not one of another init
        if not ready.exists():
            unfinished = Path(tempfile.mkdtemp(dir=_DIRECTORY))
            _make(package, unfinished)
            unfinished.rename(ready)
    return Kernel(ready / "vmlinux", ready / "initrd", ready / "kernel/lib/modules")


def _package() -> str:
    """The package of the newest kernel, whose name has a version in it."""
    answer = _output("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-\S+)", answer)
    if found is None:
        raise RuntimeError("apt knows no kernel: apt-get update")
    return found[1]


def _make(package: str, directory: Path) -> None:
    _output("apt-get", "-o", "APT::Sandbox::User=root", "download", package, cwd=directory)
    (archive,) = directory.glob("*.deb")
    _output("dpkg", "-x", str(archive), str(directory / "kernel"))
    archive.unlink()
    (release,) = (path.name for path in (directory / "kernel/lib/modules").iterdir())
    _output("depmod", "-b", str(directory / "kernel"), release)
    (compressed,) = (directory / "kernel/boot").glob("vmlinuz-*")
    (directory / "vmlinux").write_bytes(_uncompressed(compressed.read_bytes()))
    _make_initrd(directory, release)


def _uncompressed(image: bytes) -> bytes:
    """The kernel proper: unpacking it takes a machine without KVM longer than all the rest of its start."""
    at = -1
    while (at := image.find(_XZ, at + 1)) >= 0:
        try:
            kernel = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(image[at:])
        except lzma.LZMAError:
            continue
        if kernel.startswith(_ELF):
            return kernel
    raise RuntimeError("no kernel in the image")


def _make_initrd(directory: Path, release: str) -> None:
    tree = directory / "tree"
    for name in ("bin", "dev", "proc", "sys", "modules", "lower", "upper", "root"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    (tree / "init").write_text(_FIRST_INIT)
    (tree / "init").chmod(0o755)
    order: list[str] = []
    for module in _MODULES:
        lines = _output("modprobe", "-d", str(directory / "kernel"), "-S", release, "--show-depends", module)
        for line in lines.splitlines():
            verb, _, path = line.partition(" ")
            name = Path(path.strip()).name
            if verb == "insmod" and name not in order:
                shutil.copy(path.strip(), tree / "modules" / name)
                order.append(name)
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in order))
    with (directory / "initrd").open("wb") as initrd:
        subprocess.run(
            "/bin/busybox find . | /bin/busybox cpio -o -H newc",
            shell=True,
            cwd=tree,
            stdout=initrd,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    shutil.rmtree(tree)


def _output(*command: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{_PATH}", "LC_ALL": "C"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
