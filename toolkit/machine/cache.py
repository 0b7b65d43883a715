"""Where images are kept: what is made once and used by every cluster and virtual machine of this user."""

import os
from pathlib import Path

IMAGES_VARIABLE = "MSGRLAB_IMAGES"
"""Names another directory for images."""


def default_root() -> Path:
    """Where images are kept: where ``MSGRLAB_IMAGES`` says, or ``msgrlab/images`` in the user's cache."""
    if wanted := os.environ.get(IMAGES_VARIABLE):
        return Path(wanted)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "msgrlab" / "images"
