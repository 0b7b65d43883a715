"""``msgrlab lab``: open the notebooks in JupyterLab."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

_LAST_PORT = 65535


def lab(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR] [-- OPTION...]",
            help="Folder with notebooks, created and filled if it does not exist; then options for JupyterLab.",
        ),
    ] = None,
    *,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=_LAST_PORT, help="Port on loopback; by default 8888 or the next free one."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open the notebooks in JupyterLab, on loopback and protected by a token.

    Without DIR it opens the folder notebooks in a checkout, and elsewhere msgrlab-notebooks, to which it copies
    the notebooks first. Existing notebooks are never overwritten.
    """
    from messenger.errors import LocalError
    from toolkit.notebook.folder import provide
    from toolkit.notebook.jupyter import command, require_installed

    folder = words.pop(0) if words and not words[0].startswith("-") else None
    if words and not words[0].startswith("-"):
        raise LocalError(f"lab opens one folder, but {words[0]} follows it; options for JupyterLab come after --")
    require_installed()
    directory, copied = provide(Path(folder) if folder is not None else None)
    if copied:
        print(f"{copied} notebooks are now in {directory}.")
    line = command(directory, port=port, browser=not no_browser, options=words or ())
    sys.stdout.flush()
    os.execv(line[0], line)  # noqa: S606 - replaces this process, so that Ctrl-C reaches JupyterLab alone
