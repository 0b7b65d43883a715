"""The options that say which processes and machines share many runs."""

from dataclasses import dataclass
from typing import Annotated

import typer

from messenger.errors import LocalError

Dask = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Share them with the workers of this Dask scheduler; `local` starts one here."
    ),
]


@dataclass(frozen=True, slots=True)
class Shares:
    """What shares the runs.

    Raises:
        LocalError: both are given.
    """

    jobs: int | None = None
    """Processes of this machine; one for each core unless given."""
    dask: str = ""
    """Address of a Dask scheduler, whose workers do all instead."""

    def __post_init__(self) -> None:
        if self.dask and self.jobs is not None:
            raise LocalError("--jobs is for processes of this machine: with --dask, start more workers")
