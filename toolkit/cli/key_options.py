"""The options that name the keys of a capture, shared by all sub-commands that read one."""

from pathlib import Path
from typing import Annotated

import typer

Keyrings = Annotated[
    list[Path] | None,
    typer.Option("--keyring", metavar="FILE", help="Keys of clients, daemons or services. Repeatable."),
]
KeyLogs = Annotated[
    list[Path] | None,
    typer.Option(
        "--key-log", metavar="FILE", help="Keys of links, as messengers and proxies write them. Repeatable."
    ),
]
