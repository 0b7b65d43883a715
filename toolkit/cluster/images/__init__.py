"""Images: root file systems with the programs of a host, as directories for ``chroot`` and as Docker images."""

from toolkit.cluster.images.debian import RELEASES, Image, find_or_build, image, version
from toolkit.machine.cache import IMAGES_VARIABLE, default_root

__all__ = ["IMAGES_VARIABLE", "RELEASES", "Image", "default_root", "find_or_build", "image", "version"]
