"""Probes of images: root file systems with a release of Ceph."""

import os

from toolkit.cluster.chroot import images_root
from toolkit.cluster.images import RELEASES, version
from toolkit.doctor.capability import Finding

__all__ = ["RELEASES", "ceph_image"]


def ceph_image(release: str) -> Finding:
    """Whether the image of a release has been made, by one who can use it."""
    directory = images_root() / f"ceph-{release}"
    if os.geteuid() != 0:
        return Finding(available=False, detail="programs of an image are run by root")
    try:
        found = version(directory)
    except OSError:
        command = f"msgrlab images build ceph:{release}"
        return Finding(available=False, detail=f"no image in {directory}", command=command)
    return Finding(available=True, detail=f"{found} in {directory}")
