"""The captures that come with the project, by name: of real daemons, and of messengers over RDMA."""

from pathlib import Path

_KEPT = Path(__file__).parents[2] / "captures"
_HOMES = (Path(__file__).parent / "ready", _KEPT, _KEPT / "roce")
"""Where an installed wheel has some of them, and where a checkout has all."""
FILE = "capture.pcapng.gz"
"""The capture in each folder; its keyring lies beside it."""


def ready_made() -> dict[str, Path]:
    """Folders of the captures, by name: ``tentacle-osds`` and so on."""
    found = (folder for home in _HOMES for folder in sorted(home.glob("*")) if (folder / FILE).is_file())
    return {folder.name: folder for folder in found}
