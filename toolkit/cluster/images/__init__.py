"""Images: what programs a host of a cluster has, as directories to ``chroot`` into and for Docker."""

from toolkit.cluster.images.debian import RELEASES, Image, find_or_build, image, version
from toolkit.machine.cache import IMAGES_VARIABLE, default_root

__all__ = ["IMAGES_VARIABLE", "RELEASES", "Image", "default_root", "find_or_build", "image", "version"]
