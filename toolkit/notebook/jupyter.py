"""The command that starts JupyterLab."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from toolkit.extras import MissingExtra
from toolkit.machine.interpreters import PYTHON

_MODULE = "jupyterlab"
_LOOPBACK = "127.0.0.1"


def require_installed() -> None:
    """Raise MissingExtra if JupyterLab is not installed; it is not imported, which would take a second."""
    if find_spec(_MODULE) is None:
        raise MissingExtra.of(_MODULE)


def command(
    directory: Path, *, port: int | None = None, browser: bool = True, options: Sequence[str] = ()
) -> list[str]:
    """Return the command line that opens ``directory`` in JupyterLab, on loopback and protected by a token.

    Args:
        directory: an existing folder.
        port: TCP port; None for 8888, or the next free one.
        browser: False to print the address instead of opening a browser.
        options: further options for JupyterLab; they override those above.
    """
    line = [*PYTHON, "-m", _MODULE, f"--ServerApp.root_dir={directory.resolve()}", f"--ServerApp.ip={_LOOPBACK}"]
    first = min(directory.glob("*.ipynb"), default=None)
    if first is not None:
        line.append(f"--LabApp.default_url=/lab/tree/{first.name}")
    if os.geteuid() == 0:  # Jupyter refuses root without this option
        line.append("--allow-root")
    if port is not None:
        line.append(f"--ServerApp.port={port}")
    if not browser:
        line.append("--no-browser")
    return [*line, *options]
