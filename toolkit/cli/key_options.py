"""The options that name the keys of a capture, shared by all sub-commands that read one."""

from pathlib import Path
from typing import Annotated

import typer

Keyrings = Annotated[
    list[Path] | None,
    typer.Option("--keyring", metavar="FILE", help="Keyring of clients, daemons or services. Repeatable."),
]
KeyLogs = Annotated[
    list[Path] | None,
    typer.Option(
        "--key-log", metavar="FILE", help="Key log of links, as messengers and proxies write it. Repeatable."
    ),
]
