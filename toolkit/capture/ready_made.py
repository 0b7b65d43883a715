"""The captures in the project, by name: of real daemons, and of messengers over RDMA."""

from pathlib import Path

from messenger.errors import LocalError
from toolkit.scanner import did_you_mean

_KEPT = Path(__file__).parents[2] / "captures"
_HOMES = (Path(__file__).parent / "ready", _KEPT, _KEPT / "roce")
"""An installed wheel has some of them in the first folder; a checkout has all in the others."""
FILE = "capture.pcapng.gz"
"""Name of the capture in each folder; its keyring is beside it."""


def ready_made() -> dict[str, Path]:
    """Return the folders of the captures by name, such as ``tentacle-osds``."""
    found = (folder for home in _HOMES for folder in sorted(home.glob("*")) if (folder / FILE).is_file())
    return {folder.name: folder for folder in found}


def find_capture(path: str | Path) -> Path:
    """Return an existing file or folder, or the folder of the project's capture of that name.

    Raises:
        LocalError: there is neither, or the folder has no capture.
    """
    if Path(path).is_dir() and not (Path(path) / FILE).exists():
        raise LocalError(f"{path}: a folder without {FILE}")
    if Path(path).exists():
        return Path(path)
    known = ready_made()
    if str(path) not in known:
        raise LocalError(f"{path}: no such file, and no capture of that name{did_you_mean(str(path), known)}")
    return known[str(path)]
