"""``msgrlab lab``: JupyterLab on the notebooks."""

import os
import sys
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

    if not directory.is_dir():
        raise LocalError(f"no folder {directory}; run this where the notebooks are, or name their folder")
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", str(directory)])  # noqa: S606 - becomes it
