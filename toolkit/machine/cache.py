"""The directory of images that all clusters and virtual machines of this user share."""

import os
from pathlib import Path

IMAGES_VARIABLE = "MSGRLAB_IMAGES"
"""Environment variable that names another directory for images."""


def default_root() -> Path:
    """Return the directory of images: ``MSGRLAB_IMAGES``, or ``msgrlab/images`` in the user's cache."""
    if wanted := os.environ.get(IMAGES_VARIABLE):
        return Path(wanted)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "msgrlab" / "images"
