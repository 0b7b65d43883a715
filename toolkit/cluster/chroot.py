"""Running a program in an image: a directory with a root file system (:mod:`toolkit.cluster.images`)."""

import os
from collections.abc import Iterable
from pathlib import Path

from toolkit.cluster.backends.base import HostWish
from toolkit.cluster.images import default_root
from toolkit.errors import Unsupported

IMAGES_VARIABLE = "MSGRLAB_IMAGES"
"""Names another directory for images."""

_ENTER = """\
shared=$2
cd "$1"
shift 2
mount -t tmpfs msgrlab mnt
mkdir mnt/upper mnt/work mnt/root
mount -t overlay -o lowerdir=.,upperdir=mnt/upper,workdir=mnt/work msgrlab mnt/root
cd mnt/root
for directory in /proc /dev "$shared"; do
    mkdir -p ".$directory"
    mount --rbind "$directory" ".$directory"
done
exec chroot . "$@"
"""


def images_root() -> Path:
    """Where images are: the directory that ``MSGRLAB_IMAGES`` names, or else :func:`default_root`."""
    wanted = os.environ.get(IMAGES_VARIABLE)
    return Path(wanted) if wanted else default_root()


def in_image(directory: Path, shared: Path) -> list[str]:
    """What to put in front of a command line to have it run in an image; only root can.

    The program has the process id of the whole. What it writes is gone with it, but for what is in ``shared``.

    Args:
        directory: of the image, which is not changed.
        shared: a directory that has the same name inside and outside.
    """
    # mounts end with the namespace, and that with the program
    return ["unshare", "--mount", "sh", "-ec", _ENTER, "sh", str(directory), str(shared)]


def check_images(hosts: Iterable[HostWish]) -> None:
    """Whether hosts that share this machine's file system can run the programs of the images they wish for.

    Raises:
        Unsupported: only those of Ceph's releases can be, by root.
    """
    for host in hosts:
        if host.image and not host.image.startswith("ceph:"):
            raise Unsupported(f"node {host.name}: images such as {host.image} take --backend docker")
        if host.image and os.geteuid() != 0:
            raise Unsupported(f"node {host.name}: {host.image} takes root, or --backend docker")
