"""``msgrlab lab``: JupyterLab on the notebooks."""

import os
from pathlib import Path
from typing import Annotated

import typer


def lab(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with the notebooks.", show_default=True)
    ] = Path("notebooks"),
) -> None:
    """Open the notebooks in JupyterLab."""
    from messenger.errors import LocalError
    from toolkit.interpreters import PYTHON

    if not directory.is_dir():
        raise LocalError(f"no folder {directory}; run this where the notebooks are, or name their folder")
    os.execv(PYTHON[0], [*PYTHON, "-m", "jupyterlab", str(directory)])  # noqa: S606 - becomes it
