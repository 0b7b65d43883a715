"""Root file systems from Debian's archive: one per Ceph release with its daemons and tools, and one with Python.

An image is a directory to ``chroot`` into. Debian has four releases of Ceph, one in each of its suites. An image
takes two minutes to make and a gigabyte of disk, and is kept until it is removed.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.images.archive import Archive, Suite
from toolkit.cluster.images.work import Report, Work, alone, silent, whole
from toolkit.errors import Unsupported
from toolkit.machine.cache import default_root
from toolkit.machine.private import check_own

PACKAGES = (
    *("ceph-mon", "ceph-osd", "ceph-mgr", "ceph-mds", "ceph-common", "python3-rados"),
    "ibverbs-providers",
)
"""Packages of an image; the last one has the drivers of RDMA devices."""
PYTHON_SUITE = Suite("bookworm", "20260901T000000Z")
PYTHON_VERSION = "3.11"
"""Version of Python in that suite."""

_READY = "etc/msgrlab-image"
"""File that marks a complete image; it has the version of the image's program."""
_MINIMAL = "--variant=minbase"
_NO_SERVICES = "#!/bin/sh\nexit 101\n"
"""A ``policy-rc.d`` that keeps packages from starting services."""
_INSTALL = """\
mount -t proc proc "$1/proc"
mkdir -p "$1/dev/pts" && mount -t devpts devpts "$1/dev/pts"
shift
exec "$@"
"""
_ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", _INSTALL, "sh")
"""Namespaces make the mounts and processes of an installation end with it."""
_INSIDE = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
_UNPACK = """\
cd "$1"
for package in $(cat debootstrap/base); do
    for file in var/cache/apt/archives/"$package"_*.deb; do
        dpkg-deb --fsys-tarfile "$file" | tar --extract --keep-directory-symlink
    done
done
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
"""
_NEEDLESS = ("debootstrap", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")


@dataclass(frozen=True, slots=True)
class Image:
    """A release of Ceph and its sources."""

    name: str
    suite: Suite
    """Suite of Debian, at a time when it had that version."""
    version: str
    """Version of Ceph in that suite."""
    stock: str
    """The official image."""
    digest: str = ""
    """Digest of the official image, for all architectures; empty to trust the registry's."""

    @property
    def pinned(self) -> str:
        """The official image by its digest, or by its tag if no digest is known."""
        return f"{self.stock.rpartition(':')[0]}@{self.digest}" if self.digest else self.stock


_TENTACLE = "sha256:6bb1c8a42fbc0bf87938946990b65174466997bc11c31eb5a323225a779fd8f9"
RELEASES = {
    image.name: image
    for image in (
        Image("nautilus", Suite("bullseye", "20260901T000000Z"), "14.2.21", "docker.io/ceph/ceph:v14.2.22"),
        Image("pacific", Suite("bookworm", "20260901T000000Z"), "16.2.15", "quay.io/ceph/ceph:v16.2.15"),
        Image("reef", Suite("trixie", "20261001T000000Z"), "18.2.7", "quay.io/ceph/ceph:v18.2.7"),
        Image("tentacle", Suite("sid", "20261030T120000Z"), "20.2.4", "quay.io/ceph/ceph:v20.2.4", _TENTACLE),
    )
}


def image(release: str) -> Image:
    """Return the image of a release.

    Raises:
        LocalError: there is none.
    """
    if release not in RELEASES:
        raise LocalError(f"no image of Ceph {release!r}; known: {', '.join(RELEASES)}")
    return RELEASES[release]


def ceph_directory(release: str, root: Path | None = None) -> Path:
    """Return the directory of a release's image, whether it exists or not."""
    return (root or default_root()) / f"ceph-{image(release).name}"


def find_or_build(
    release: str,
    root: Path | None = None,
    announce: Report = print,
    report: Report = silent,
    archive: Archive | None = None,
) -> Path:
    """Return the directory of a release's image, and build it unless it exists.

    Args:
        release: ``nautilus``, ``pacific``, ``reef`` or ``tentacle``.
        root: directory of images; :func:`default_root` unless given.
        announce: called with one line if an image has to be built.
        report: called with each step of the build.
        archive: Debian's archive; :meth:`Archive.wanted` unless given.

    Raises:
        LocalError: there is no such release, or a program failed; its output is in a log beside the image.
        Unsupported: building images needs root, ``debootstrap`` and the keys of Debian's archive.
    """
    wanted, directory = image(release), ceph_directory(release, root)
    if _is_usable(directory):
        return directory
    source = archive or Archive.wanted()
    return _made(
        directory, lambda work, to: _make_ceph(work, source, wanted.suite, to), announce, report,
        f"making an image of Ceph {wanted.version}", source, wanted.suite,
    )  # fmt: skip


def python_base(
    root: Path | None = None, announce: Report = print, report: Report = silent, archive: Archive | None = None
) -> Path:
    """Return the directory of a small root file system with Python, and build it unless it exists.

    Raises:
        LocalError: a program failed; its output is in a log beside the image.
        Unsupported: building images needs root, ``debootstrap`` and the keys of Debian's archive.
    """
    directory = (root or default_root()) / f"python-{PYTHON_VERSION}"
    if _is_usable(directory):
        return directory
    source = archive or Archive.wanted()
    return _made(
        directory, lambda work, to: _make_python(work, source, to), announce, report,
        "making a base with Python", source, PYTHON_SUITE,
    )  # fmt: skip


def is_ready(directory: Path) -> bool:
    """True if an image exists and is complete."""
    return (directory / _READY).exists()


def version(directory: Path) -> str:
    """Return the version of Ceph in an image, as in ``18.2.7``."""
    return (directory / _READY).read_text().strip()


def _is_usable(directory: Path) -> bool:
    """True if an image exists, is complete, and no other user can have changed it.

    Raises:
        LocalError: another user can.
    """
    if is_ready(directory):
        check_own(directory, "image")
        return True
    return False


def _made(
    directory: Path,
    make: Callable[[Work, Path], str],
    announce: Report,
    report: Report,
    announcement: str,
    archive: Archive,
    suite: Suite,
) -> Path:
    check_means()
    keys = archive.keys()
    with alone(directory, announce):
        check_own(directory.parent, "directory of images")
        if not is_ready(directory):
            announce(
                f"{announcement} in {directory}: debootstrap and apt fetch packages of Debian {suite.name} from"
                f" {archive.mirror_of(suite)}, verify them with {keys} and run their scripts as root in a chroot"
                " (minutes, and up to a gigabyte)"
            )
            with whole(directory) as unfinished:
                made = make(Work(directory.with_name(directory.name + ".log"), report), unfinished)
                (unfinished / _READY).write_text(made + "\n")
    return directory


def check_means() -> None:
    """Check that this process can install packages in a directory.

    Raises:
        Unsupported: it is not root, or ``debootstrap`` is missing.
    """
    if os.geteuid() != 0:
        raise Unsupported("images are made by root: debootstrap and chroot need it")
    if shutil.which("debootstrap") is None:
        raise Unsupported("no debootstrap in PATH (Debian: apt-get install debootstrap)")


def inside(directory: Path) -> tuple[str, ...]:
    """Return the command prefix that runs a program in a root file system."""
    return ("chroot", str(directory), *_INSIDE)


def install(work: Work, archive: Archive, suite: Suite, directory: Path, packages: Sequence[str]) -> None:
    """Make a root file system of a suite with packages, without starting services.

    Raises:
        LocalError: a program failed; the message names the log.
        Unsupported: there are no keys.
    """
    tls = ("--include=ca-certificates",) if archive.mirror_of(suite).startswith("https:") else ()
    archive.bootstrap(work, suite, directory, _MINIMAL, *tls)
    policy = directory / "usr/sbin/policy-rc.d"
    policy.write_text(_NO_SERVICES)
    policy.chmod(0o755)
    fetch = ("apt-get", "install", "-y", "--no-install-recommends", *packages)
    work.run(*_ISOLATED, str(directory), *inside(directory), *fetch)
    shutil.rmtree(directory / "var/cache/apt/archives")


def _make_ceph(work: Work, archive: Archive, suite: Suite, directory: Path) -> str:
    """Install Ceph; returns its version."""
    install(work, archive, suite, directory, PACKAGES)
    shutil.rmtree(directory / "var/lib/apt/lists")
    return work.run(*inside(directory), "ceph-mon", "--version").split()[2]


def _make_python(work: Work, archive: Archive, directory: Path) -> str:
    """Unpack Python; returns its version. Unpacking without installing takes a quarter of the time."""
    packages = "--include=python3-minimal,libpython3-stdlib"
    archive.bootstrap(work, PYTHON_SUITE, directory, _MINIMAL, "--foreign", packages)
    work.run("sh", "-ec", _UNPACK, "sh", str(directory))
    for needless in (*_NEEDLESS, "var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(directory / needless, ignore_errors=True)
    return work.run(
        *inside(directory), "python3", "-I", "-c", "import ctypes, ssl, platform as p; print(p.python_version())"
    ).strip()
