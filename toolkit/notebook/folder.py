"""The notebooks that come with the project, and copies of them that a user may change."""

import shutil
from pathlib import Path

from messenger.errors import LocalError

_HOMES = (Path(__file__).parent / "ready", Path(__file__).parents[2] / "notebooks")
"""Where an installed wheel has the notebooks, and where a checkout has them."""
IN_CHECKOUT = Path("notebooks")
COPIES = Path("msgrlab-notebooks")
"""Folder that is made in the current directory where there is no checkout."""


def shipped() -> list[Path]:
    """The notebooks that come with the project, in the order in which they are read.

    Raises:
        LocalError: the installation has none.
    """
    for home in _HOMES:
        if found := sorted(home.glob("*.ipynb")):
            return found
    raise LocalError(f"{_HOMES[0]}: no notebooks there; install msgrlab again")


def provide(directory: Path | None) -> tuple[Path, int]:
    """A folder with notebooks, made and filled if it does not exist. What exists is not changed.

    Args:
        directory: the folder. None: ``notebooks`` in the current directory if it has the tour, which is so in a
            checkout, or else ``msgrlab-notebooks``.

    Returns:
        The folder, and the number of notebooks copied into it.

    Raises:
        LocalError: the path is no folder, or the copies cannot be written.
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
        raise LocalError(f"{directory}: {error.strerror}; name a folder, or one that can be made") from None
    return directory, len(notebooks)
