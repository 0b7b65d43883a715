"""A run of the matrix shared by the workers of a Dask cluster: each takes the cells of one setup at a time."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from toolkit.machine.private import write_private
from toolkit.machine.workers import Line, Lost, stream_by_dask
from toolkit.matrix.runner import Grounds, Outcome, Run, Trying
from toolkit.matrix.table import Cell, Verdict


@dataclass(frozen=True, slots=True)
class Parcel:
    """An outcome and the files of its cell, as a worker sends them."""

    outcome: Outcome
    files: dict[str, bytes]

    def unpack(self, directory: Path) -> Outcome:
        """Make ``directory``, write the files into it, and return the outcome with that directory."""
        if self.outcome.directory is None:
            return self.outcome
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in self.files.items():
            write_private(directory / name, content)
        return replace(self.outcome, directory=directory)


@dataclass(slots=True)
class SharedRun(Run):
    """A run whose setups are distributed to workers. If a worker is lost, its setup starts again on another one.

    Args:
        dask: address of the scheduler, or ``local``.
        progress: called with a line for each finished cell, before the files of its setup arrive.
    """

    dask: str = ""
    progress: Callable[[str], None] = field(default=lambda _line: None)

    def _run_setups(self, setups: Sequence[Sequence[Cell]]) -> None:
        work = partial(run_setup, self.grounds, self.case)
        for event in stream_by_dask(work, setups, self.dask) if setups else ():
            if isinstance(event, Line):
                self.progress(event.text)
            elif isinstance(event, Lost):
                self._skip_cells(event.unit, Verdict.NOT_RUN, event.reason)
            else:
                for parcel in event.result:
                    self._add(parcel.unpack(self.directory_of(parcel.outcome.cell)))


def run_setup(
    grounds: Grounds, case: Trying, cells: Sequence[Cell], report: Callable[[str], None]
) -> list[Parcel]:
    """Run the cells of one setup on this machine.

    Args:
        grounds: opens the cluster of the setup, as for :class:`Run`.
        case: runs the case of a trial, as for :class:`Run`.
        cells: the cells of the setup.
        report: called with a line for each finished cell.
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
