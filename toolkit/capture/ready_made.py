"""The captures in the project, by name: of real daemons, and of messengers over RDMA."""

from pathlib import Path

_KEPT = Path(__file__).parents[2] / "captures"
_HOMES = (Path(__file__).parent / "ready", _KEPT, _KEPT / "roce")
"""An installed wheel has some of them in the first folder; a checkout has all in the others."""
FILE = "capture.pcapng.gz"
"""Name of the capture in each folder; its keyring is beside it."""


def ready_made() -> dict[str, Path]:
    """Return the folders of the captures by name, such as ``tentacle-osds``."""
    found = (folder for home in _HOMES for folder in sorted(home.glob("*")) if (folder / FILE).is_file())
    return {folder.name: folder for folder in found}
