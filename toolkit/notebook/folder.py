"""The notebooks that come with the project, and copies that a user can change."""

import shutil
from pathlib import Path

from messenger.errors import LocalError

_HOMES = (Path(__file__).parent / "ready", Path(__file__).parents[2] / "notebooks")
"""The folder of the notebooks in an installed wheel, and in a checkout."""
IN_CHECKOUT = Path("notebooks")
COPIES = Path("msgrlab-notebooks")
"""Folder for copies, made in the current directory outside a checkout."""


def shipped() -> list[Path]:
    """Return the notebooks that come with the project, in reading order.

    Raises:
        LocalError: the installation has none.
    """
    for home in _HOMES:
        if found := sorted(home.glob("*.ipynb")):
            return found
    raise LocalError(f"{_HOMES[0]}: the notebooks are missing; reinstall msgrlab")


def provide(directory: Path | None) -> tuple[Path, int]:
    """Return a folder with notebooks; if it does not exist, make it and copy the notebooks into it.

    Args:
        directory: the folder. None for ``notebooks`` in the current directory if it has the tour, as in a
            checkout, or else ``msgrlab-notebooks``.

    Returns:
        The folder, and the number of notebooks copied into it.

    Raises:
        LocalError: the path is not a folder, or the copies cannot be written.
    """
    notebooks = shipped()
    if directory is None:
        directory = IN_CHECKOUT if (IN_CHECKOUT / notebooks[0].name).is_file() else COPIES
    if directory.is_dir():
        return directory, 0
    try:
        directory.mkdir(parents=True)
        for notebook in notebooks:
            shutil.copyfile(notebook, directory / notebook.name)
    except OSError as error:
        raise LocalError(f"{directory}: {error.strerror}; give a folder that exists or can be created") from None
    return directory, len(notebooks)
