"""``msgrlab init``: create a project that uses msgrlab."""

from pathlib import Path
from typing import Annotated

import typer

from messenger.errors import LocalError

_KINDS = ("tests",)


def init(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What to create: tests.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder, created if missing; it must be empty.")
    ],
) -> None:
    """Create a test project: an example of each fixture, a scenario, a CI file, a README."""
    from toolkit.new_project import create

    if kind not in _KINDS:
        raise LocalError(
            f"init: unknown KIND {kind!r}; known: {', '.join(_KINDS)}, as in: msgrlab init tests {directory}"
        )
    for path in create(directory):
        print(path)
    print(f"\nnext: cd {directory} && pytest")
