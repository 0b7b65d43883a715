"""The options that name the processes or machines that share many runs."""

from dataclasses import dataclass
from typing import Annotated

import typer

from messenger.errors import LocalError

Dask = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Run on the workers of this Dask scheduler; `local` starts a scheduler here."
    ),
]


@dataclass(frozen=True, slots=True)
class Shares:
    """The processes or Dask workers that share the runs.

    Raises:
        LocalError: both are given.
    """

    jobs: int | None = None
    """Number of processes on this machine; None if it was not given."""
    dask: str = ""
    """Address of the Dask scheduler whose workers run everything; empty to use processes of this machine."""

    def __post_init__(self) -> None:
        if self.dask and self.jobs is not None:
            raise LocalError("--jobs and --dask exclude each other; for more processes, start more Dask workers")
