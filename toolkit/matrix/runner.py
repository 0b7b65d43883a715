"""Runs cells, all of one setup on one cluster, and records their outcomes."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from messenger.errors import MsgrError
from toolkit.errors import Unsupported
from toolkit.matrix.cases import run_case
from toolkit.matrix.evidence import EvidenceMissing
from toolkit.matrix.ground import Ground, NotServed, Trial
from toolkit.matrix.table import Cell, Reason, Verdict, reason_of


class Grounds(Protocol):
    """Opens the cluster of a cell's setup."""

    def __call__(self, cell: Cell) -> AbstractContextManager[Any]:
        """Return a context manager of a ground, which has a method ``trial``."""


Trying = Callable[[Trial], None]
"""Runs the case of a trial."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a cell."""

    cell: Cell
    verdict: Verdict
    reason: str = ""
    """Reason why the cell failed or was not run; begins with the owner of the limitation."""
    evidence: Sequence[str] = ()
    """The evidence collected, in order."""
    duration_s: float = 0.0
    directory: Path | None = None
    """Folder with the files of the cell; None if it was not run."""
    machine: str = ""
    """Name of the machine that ran the cell; empty for this one."""

    @property
    def was_run(self) -> bool:
        """True if the trial was started."""
        return self.directory is not None

    @property
    def is_failure(self) -> bool:
        """True if the cell failed, or was not run because its cluster did not come up or the run ended early."""
        return self.verdict in (Verdict.FAILED, Verdict.NOT_RUN)

    @property
    def command(self) -> str:
        """The command that runs the cell again."""
        host = " --release host" if self.cell.release == "host" else ""
        return f"msgrlab matrix{host} --only {self.cell.id}"

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return {
            "id": self.cell.id,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "evidence": list(self.evidence),
            "seconds": round(self.duration_s, 3),
            "directory": None if self.directory is None else str(self.directory),
            "machine": self.machine,
            "again": self.command,
        }


@dataclass(slots=True)
class Run:
    """A run of the matrix; ``outcomes`` grows while it runs.

    Args:
        cells: the cells to run.
        directory: folder for the files of all cells.
        report: called with each outcome.
        grounds: opens the cluster of a setup.
        case: runs the case of a trial.
    """

    cells: Sequence[Cell]
    directory: Path
    report: Callable[[Outcome], None] = lambda _outcome: None
    grounds: Grounds = Ground.open
    case: Trying = run_case
    outcomes: list[Outcome] = field(default_factory=list)

    def go(self) -> list[Outcome]:
        """Run all cells; cells that cannot be run get an outcome with the reason.

        After Ctrl-C, :meth:`so_far` returns the outcomes so far, with the remaining cells as NOT_RUN.
        """
        possible = []
        for cell in self.cells:
            reason = reason_of(cell)
            if reason is None:
                possible.append(cell)
            else:
                self._add(Outcome(cell, reason.verdict, str(reason)))
        ordered = sorted(possible, key=lambda cell: self._place(cell.setup))
        self._run_setups([list(group) for _, group in groupby(ordered, key=lambda cell: cell.setup)])
        return self.so_far()

    def so_far(self) -> list[Outcome]:
        """Return an outcome for each cell, in the order of the table; cells that were not reached are NOT_RUN."""
        known = {outcome.cell: outcome for outcome in self.outcomes}
        return [
            known.get(cell) or Outcome(cell, Verdict.NOT_RUN, "the run ended before it") for cell in self.cells
        ]

    def directory_of(self, cell: Cell) -> Path:
        """Return the folder for the files of a cell."""
        return self.directory / cell.id.replace("/", "-")

    def _place(self, setup: tuple[str, str, str, bool]) -> int:
        return next(number for number, cell in enumerate(self.cells) if cell.setup == setup)

    def _run_setups(self, setups: Sequence[Sequence[Cell]]) -> None:
        for cells in setups:
            self._run_setup(cells)

    def _run_setup(self, cells: Sequence[Cell]) -> None:
        left = list(cells)
        try:
            with self.grounds(cells[0]) as ground:
                while left:
                    self._add(self._run_cell(ground, left[0]))
                    left.pop(0)
        except Unsupported as error:
            reason = Reason(Verdict.UNSUPPORTED, "machine", str(error))
            self._skip_cells(left, reason.verdict, str(reason))
        except MsgrError as error:
            line = str(error).partition("\n")[0]
            self._skip_cells(left, Verdict.NOT_RUN, f"the cluster could not be started or stopped: {line}")

    def _skip_cells(self, cells: Iterable[Cell], verdict: Verdict, reason: str) -> None:
        for cell in cells:
            self._add(Outcome(cell, verdict, reason))

    def _run_cell(self, ground: Any, cell: Cell) -> Outcome:  # noqa: ANN401 - a Ground, or a test's
        began_s = time.monotonic()
        directory = self.directory_of(cell)
        verdict, reason, trial = Verdict.SUCCEEDED, "", None
        try:
            with ground.trial(cell, directory) as trial:
                self.case(trial)
        except EvidenceMissing as error:
            verdict, reason = Verdict.FAILED, str(error)
        except NotServed as error:
            verdict, reason = Verdict.NOT_RUN, f"Ceph: its own programs fail with each other: {error}"
        except Unsupported as error:
            verdict, reason = Verdict.UNSUPPORTED, str(Reason(Verdict.UNSUPPORTED, "machine", str(error)))
        except MsgrError as error:
            verdict, reason = Verdict.FAILED, f"{type(error).__name__}: {error}"
        evidence = tuple(trial.evidence) if trial is not None else ()
        outcome = Outcome(cell, verdict, reason, evidence, time.monotonic() - began_s, directory)
        lines = [f"{verdict}{f': {reason}' if reason else ''}", *evidence, "", "again:", f"  {outcome.command}"]
        (directory / "outcome.txt").write_text("\n".join(lines) + "\n")
        return outcome

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.report(outcome)
