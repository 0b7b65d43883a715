"""A run of the matrix shared by the workers of a Dask cluster: each takes the cells of one setup at a time."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from toolkit.machine.private import write_private
from toolkit.machine.sharing import Line, Lost, stream_by_dask
from toolkit.matrix.runner import Grounds, Outcome, Run, Trying
from toolkit.matrix.table import Cell, Verdict


@dataclass(frozen=True, slots=True)
class Parcel:
    """An outcome and the files of its cell, on their way from the worker."""

    outcome: Outcome
    files: dict[str, bytes]

    def unpack(self, directory: Path) -> Outcome:
        """Write the files into a directory, which is made; returns the outcome with it."""
        if self.outcome.directory is None:
            return self.outcome
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in self.files.items():
            write_private(directory / name, content)
        return replace(self.outcome, directory=directory)


@dataclass(slots=True)
class SharedRun(Run):
    """A run whose setups are shared by workers. A setup whose worker is lost begins again on another one.

    Args:
        dask: address of the scheduler, or ``local``.
        progress: called with a line for each cell as a worker has run it, before the files of its setup are here.
    """

    dask: str = ""
    progress: Callable[[str], None] = field(default=lambda _line: None)

    def _run_setups(self, setups: Sequence[Sequence[Cell]]) -> None:
        work = partial(run_setup, self.grounds, self.case)
        for event in stream_by_dask(work, setups, self.dask) if setups else ():
            if isinstance(event, Line):
                self.progress(event.text)
            elif isinstance(event, Lost):
                self._give_up(event.unit, Verdict.NOT_RUN, event.reason)
            else:
                for parcel in event.result:
                    self._add(parcel.unpack(self.directory_of(parcel.outcome.cell)))


def run_setup(
    grounds: Grounds, case: Trying, cells: Sequence[Cell], report: Callable[[str], None]
) -> list[Parcel]:
    """Run the cells of one setup on this machine.

    Args:
        grounds: as for :class:`Run`.
        case: as for :class:`Run`.
        cells: which share a setup.
        report: takes a line for each cell that was run.
    """
    machine = platform.node()
    with TemporaryDirectory(prefix="msgrlab-matrix-") as directory:
        run = Run(
            cells,
            Path(directory),
            lambda outcome: report(f"{outcome.cell.id} {outcome.verdict} on {machine}"),
            grounds,
            case,
        )
        return [Parcel(replace(outcome, machine=machine), _files(outcome.directory)) for outcome in run.go()]


def _files(directory: Path | None) -> dict[str, bytes]:
    return {} if directory is None else {path.name: path.read_bytes() for path in directory.iterdir()}
