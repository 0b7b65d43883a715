"""The matrix for notebooks: the cells as a table, with the results of docs/matrix.md."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.matrix.table import ABOUT, Case, Verdict, cells, reason_of
from toolkit.tables import data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

_KEPT = (Path(__file__).parents[2] / "docs" / "matrix.json", Path(__file__).parent / "kept.json")
"""The file of results in a checkout, and in an installed wheel."""
_COLUMNS = ("release", "wire", "auth", "role", "case", "verdict", "reason", "evidence")


def kept() -> "DataFrame":
    """Return a row for each cell of the four releases: its verdict, the reason for it, and the evidence.

    Raises:
        MissingExtra: pandas is not installed.
    """
    results = json.loads(next(path for path in _KEPT if path.exists()).read_text())
    rows = []
    for cell in cells():
        verdict, reason, evidence = Verdict.NOT_RUN.value, "", []
        if known := reason_of(cell):
            verdict, reason = known.verdict.value, str(known)
        elif found := results.get(cell.id):
            verdict, reason, evidence = found["verdict"], found["reason"], found["evidence"]
        axes = (cell.release, cell.wire, cell.auth, cell.role.value, cell.case.value)
        rows.append((*axes, verdict, reason, evidence))
    return data_frame(rows, _COLUMNS)


def cases() -> "DataFrame":
    """Return a row with the description of each case; raises MissingExtra without pandas."""
    return data_frame([(case.value, ABOUT[case]) for case in Case], ("case", "tries"))
