"""Runs the cells of a hunt and records their outcomes."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from messenger.errors import LocalError
from toolkit.hunt.cells import Action, Cell, Verdict
from toolkit.hunt.ground import PATIENCE_S, Ground, finished, pieces

RESULTS_FILE = "results.jsonl"
"""File in the directory of a hunt with the outcomes so far; a later run continues after them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a cell."""

    cell: Cell
    release: str
    verdict: Verdict
    cause: str = ""
    """The problem found, the same text for the same problem; empty if there is none."""
    seconds: float = 0.0
    directory: Path | None = None
    """Folder with capture, keys and logs; None for a cell without a cause."""

    @property
    def command(self) -> str:
        """The command that runs the cell again."""
        return f"msgrlab hunt --release {self.release} --only {self.cell.id}"

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return {
            "id": self.cell.id,
            "release": self.release,
            "rule": self.cell.rule,
            "verdict": self.verdict.value,
            "cause": self.cause,
            "seconds": round(self.seconds, 2),
            "directory": None if self.directory is None else str(self.directory),
            "again": self.command,
        }


class Grounds(Protocol):
    """Opens the cluster of a release."""

    def __call__(self, release: str) -> AbstractContextManager[Any]:
        """Return a context manager of a :class:`Ground`."""


@dataclass(slots=True)
class Hunt:
    """A run of cells against one release; ``outcomes`` grows while it runs.

    Args:
        cells: the cells to run, in this order.
        release: release of the daemons and clients.
        directory: folder for the files of cells and the results; earlier results in it are kept.
        report: called with each new outcome.
        grounds: opens the cluster of a release.
    """

    cells: Sequence[Cell]
    release: str
    directory: Path
    report: Callable[[Outcome], None] = lambda _outcome: None
    grounds: Grounds = Ground.open
    outcomes: list[Outcome] = field(default_factory=list)

    def go(self) -> list[Outcome]:
        """Run the cells without a result; after Ctrl-C, :meth:`so_far` returns the outcomes so far.

        After a finding a new cluster is started, so that one finding cannot cause the next.

        Raises:
            Unsupported: this machine lacks what the cluster needs.
            LocalError: the cluster does not come up, or the results in the directory cannot be read.
        """
        self.outcomes = self._known()
        done = {outcome.cell for outcome in self.outcomes}
        left = [cell for cell in self.cells if cell not in done]
        while left:
            with self.grounds(self.release) as ground:
                while left:
                    outcome = self._run(ground, left.pop(0))
                    self._add(outcome)
                    if outcome.verdict is Verdict.FOUND:
                        break
        return self.so_far()

    def so_far(self) -> list[Outcome]:
        """Return an outcome for each cell; cells that were not reached are NOT_RUN."""
        known = {outcome.cell: outcome for outcome in self.outcomes}
        return [known.get(cell) or Outcome(cell, self.release, Verdict.NOT_RUN) for cell in self.cells]

    def _run(self, ground: Ground, cell: Cell) -> Outcome:
        began_s = time.monotonic()
        directory = self.directory / cell.id.replace("/", "-")
        with ground.watched(directory, cell.link):
            verdict, cause = _judged(ground, cell)
        if not cause:
            shutil.rmtree(directory)
        kept = directory if cause else None
        return Outcome(cell, self.release, verdict, cause, time.monotonic() - began_s, kept)

    # ---- results that outlive the run

    def _known(self) -> list[Outcome]:
        path = self.directory / RESULTS_FILE
        wanted = {cell.id: cell for cell in self.cells}
        found = []
        try:
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                values = json.loads(line)
                if values["release"] == self.release and values["id"] in wanted:
                    place = values["directory"] and Path(values["directory"])
                    verdict, cell = Verdict(values["verdict"]), wanted[values["id"]]
                    found.append(
                        Outcome(cell, self.release, verdict, values["cause"], values["seconds"], place or None)
                    )
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise LocalError(f"{path}: not the results of a hunt: {error}") from None
        return found

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        with (self.directory / RESULTS_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(outcome.as_json())}\n")
        self.report(outcome)


def _judged(ground: Ground, cell: Cell) -> tuple[Verdict, str]:
    """Have the client write during the cell's fault; compare the object with the acknowledged writes."""
    with ground.struck(cell) as rules:
        ground.cut(cell.link)  # both peers may reconnect; the handshake passes all of its points again
        appended = ground.append()
        was_stuck = not finished(appended, PATIENCE_S)
    if was_stuck:
        ground.cut(cell.link)
    if not finished(appended, PATIENCE_S):
        return Verdict.FOUND, _root_cause(ground, "a write hangs, also after the link was cut")
    read = ground.read()
    if not finished(read, PATIENCE_S):
        return Verdict.FOUND, _root_cause(ground, "a read hangs once the fault is over")
    if ended := ground.ended():
        return Verdict.FOUND, ended
    if (failed := read.exception()) is not None:
        return Verdict.FOUND, f"a read fails once the fault is over: {failed}"
    if wrong := _compared(ground, read.result(), acknowledged=appended.exception() is None):
        return Verdict.FOUND, wrong
    if (failed := appended.exception()) is not None:
        return Verdict.FOUND, f"a write fails: {failed}"
    has_struck = any(strike.hits for strike in rules)
    if was_stuck:
        return _stuck(cell, has_struck=has_struck)
    return (Verdict.HELD if has_struck else Verdict.NOT_PASSED), ""


def _stuck(cell: Cell, *, has_struck: bool) -> tuple[Verdict, str]:
    """Return verdict and cause for a write that waited until the link was cut.

    It is no finding after a dropped or duplicated frame, since TCP never drops or repeats data.
    """
    if not has_struck:
        return Verdict.FOUND, "a write waits until the link is cut, and nothing was done to it"
    verdict = Verdict.STUCK if cell.action in {Action.DROP, Action.DUPLICATE} else Verdict.FOUND
    return verdict, f"after {cell.action} of {cell.point.tag} a write waits until the link is cut"


def _root_cause(ground: Ground, cause: str) -> str:
    """Return ``cause``, or the reason why daemons exited, since that explains every other problem."""
    return ground.ended() or cause


def _compared(ground: Ground, content: str, *, acknowledged: bool) -> str:
    """Return the problem of the object's content; empty if it has each acknowledged piece once, in order."""
    before, there, last = pieces(ground.expected), pieces(content), ground.last_piece
    repeated = [piece for piece, count in Counter(there).items() if count > 1]
    if repeated:
        return "a write is done twice"
    wanted = [*before, last] if acknowledged or last in there else before
    if there != wanted:
        missing = [piece for piece in wanted if piece not in there]
        return "an acknowledged write is lost" if missing else "writes are in another order"
    ground.expected = content
    return ""


def by_cause(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Group the outcomes that have a cause by cause, the most frequent first."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.cause:
            groups.setdefault(outcome.cause, []).append(outcome)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))
