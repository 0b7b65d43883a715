"""Run programs in an image: a directory with a root file system (:mod:`toolkit.cluster.images`)."""

import os
from collections.abc import Iterable
from pathlib import Path

from toolkit.cluster.backends.base import HostWish
from toolkit.cluster.images import default_root
from toolkit.errors import Unsupported

IMAGES_VARIABLE = "MSGRLAB_IMAGES"
"""Environment variable that names another directory for images."""

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
    """Return the directory of images: ``MSGRLAB_IMAGES`` if that is set, or else :func:`default_root`."""
    wanted = os.environ.get(IMAGES_VARIABLE)
    return Path(wanted) if wanted else default_root()


def in_image(directory: Path, shared: Path) -> list[str]:
    """Return the command prefix that runs a program in an image; it needs root.

    The prefix execs, so the program has the process id of the command. Files that it writes are lost when it ends,
    except those in ``shared``.

    Args:
        directory: the image; it is mounted read-only below an overlay.
        shared: a directory that has the same path inside and outside.
    """
    # the mounts vanish with the mount namespace, which ends with the program
    return ["unshare", "--mount", "sh", "-ec", _ENTER, "sh", str(directory), str(shared)]


def check_images(hosts: Iterable[HostWish]) -> None:
    """Check that hosts that share this machine's file system can run the programs of their images.

    Raises:
        Unsupported: an image is not of a Ceph release, or this process is not root.
    """
    for host in hosts:
        if host.image and not host.image.startswith("ceph:"):
            raise Unsupported(f"node {host.name}: images such as {host.image} take --backend docker")
        if host.image and os.geteuid() != 0:
            raise Unsupported(f"node {host.name}: {host.image} takes root, or --backend docker")
