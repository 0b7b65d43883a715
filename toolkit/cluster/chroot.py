"""Run programs in an image: a directory with a root file system (:mod:`toolkit.cluster.images`)."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.backends.base import HostWish
from toolkit.errors import Unsupported
from toolkit.machine.cache import default_root
from toolkit.machine.capability import own_command
from toolkit.machine.private import check_own

IMAGES_VARIABLE = "MSGRLAB_IMAGES"
"""Environment variable that names another directory for images."""

_ENTER = """\
image=$1
shared=
shift
while [ "$1" != -- ]; do
    shared="$shared
$1"
    shift
done
shift
cd "$image"
mount -t tmpfs msgrlab mnt
mkdir mnt/upper mnt/work mnt/root
mount -t overlay -o lowerdir=.,upperdir=mnt/upper,workdir=mnt/work msgrlab mnt/root
cd mnt/root
IFS='
'
for directory in /proc /dev $shared; do
    mkdir -p ".$directory"
    mount --rbind "$directory" ".$directory"
done
exec chroot . "$@"
"""
_OF_THIS_MACHINE = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD")
"""Variables of the environment that name files which an image does not have."""
_SETTINGS = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8")
_OF_IMAGES = {"bin", "dev", "etc", "lib", "lib32", "lib64", "mnt", "proc", "sbin", "sys", "usr"}
"""Directories at the root of a file system that are always those of the image."""


def images_root() -> Path:
    """Return the directory of images: ``MSGRLAB_IMAGES`` if that is set, or else :func:`default_root`."""
    wanted = os.environ.get(IMAGES_VARIABLE)
    return Path(wanted) if wanted else default_root()


def in_image(directory: Path, *shared: Path) -> list[str]:
    """Return the command prefix that runs a program in an image; it needs root.

    The prefix execs, so the program has the process id of the command. Files that it writes are lost when it ends,
    except those in ``shared``.

    Args:
        directory: the image; it is mounted read-only below an overlay.
        shared: directories that have the same path inside and outside.
    """
    # the mounts vanish with the mount namespace, which ends with the program
    return ["unshare", "--mount", "sh", "-ec", _ENTER, "sh", str(directory), *map(str, shared), "--"]


def like_here(directory: Path, shared: Sequence[Path], working: Path) -> list[str]:
    """Return the command prefix of :func:`in_image` for a program that a user of this machine starts.

    Variables that name files of this machine, as PYTHONPATH does, are removed from its environment.

    Args:
        directory: the image.
        shared: as for :func:`in_image`.
        working: working directory of the program; it is in a shared directory.
    """
    removed = [word for name in _OF_THIS_MACHINE for word in ("-u", name)]
    return [*in_image(directory, *shared), "env", *removed, f"--chdir={working}", *_SETTINGS]


def existing_image(release: str) -> Path:
    """Return the directory of a release's image.

    Raises:
        LocalError: there is no such release, or another user can change the image.
        Unsupported: this process is not root, or the image has not been built; the message names the command.
    """
    from toolkit.cluster.images.debian import ceph_directory, is_ready  # noqa: PLC0415 - only for real daemons

    directory = ceph_directory(release, images_root())
    if os.geteuid() != 0:
        raise Unsupported(f"Ceph {release} comes from an image, which needs root")
    if not is_ready(directory):
        raise Unsupported(
            f"no image of Ceph {release} in {directory}: {own_command()} images build ceph:{release} --directory"
        )
    check_own(directory, "image")
    return directory


def check_shared(directories: Iterable[Path]) -> None:
    """Check that directories of this machine can be shared with the programs of an image.

    Raises:
        LocalError: there is no such directory, its path is relative, or an image has its own directory there.
    """
    for directory in directories:
        if not directory.is_absolute() or ".." in directory.parts:
            raise LocalError(f"{directory}: give a directory to share as an absolute path")
        if not directory.is_dir():
            raise LocalError(f"{directory}: there is no such directory")
        if "\n" in str(directory) or directory == Path("/") or directory.parts[1] in _OF_IMAGES:
            raise LocalError(f"{directory}: it cannot be shared: programs find that of their image there")


def check_names(hosts: Iterable[HostWish]) -> None:
    """Check that the images of hosts are those of Ceph releases; raises Unsupported."""
    for host in hosts:
        if host.image and not host.image.startswith("ceph:"):
            raise Unsupported(f"node {host.name}: images such as {host.image} take --backend docker")


def releases(hosts: Iterable[HostWish]) -> list[str]:
    """Return the releases of Ceph whose images hosts need."""
    return sorted({host.image.partition(":")[2] for host in hosts if host.image})


def check_drivers(hosts: Sequence[HostWish]) -> None:
    """Check that programs of images can use RDMA devices; an image that is missing will have the drivers.

    Raises:
        Unsupported: an image was made without drivers; the message names the commands that make another one.
    """
    from toolkit.cluster.images.debian import ceph_directory, is_ready  # noqa: PLC0415 - only for real daemons

    check_names(hosts)
    for release in releases(hosts):
        directory = ceph_directory(release, images_root())
        if is_ready(directory) and not any(directory.glob("usr/lib/*/libibverbs/*.so")):
            own, name = own_command(), f"ceph:{release}"
            raise Unsupported(
                f"transport rdma: {directory} lacks ibverbs-providers, the drivers of RDMA devices:"
                f" {own} images remove {name}, then {own} images build {name} --directory"
            )


def check_images(hosts: Sequence[HostWish]) -> None:
    """Check that hosts that share this machine's file system can run the programs of their images.

    Raises:
        Unsupported: an image is not of a Ceph release, or this process is not root.
    """
    check_names(hosts)
    for host in hosts:
        if host.image and os.geteuid() != 0:
            raise Unsupported(f"node {host.name}: {host.image} needs root, or --backend docker")
