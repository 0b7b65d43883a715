"""The kept results of the matrix as a table."""

import json
from pathlib import Path

from toolkit.matrix.results import cases, kept
from toolkit.matrix.table import Case
from toolkit.matrix.table import cells as all_cells

ROOT = Path(__file__).parents[3]


def test_there_is_a_row_for_each_cell_with_its_evidence_or_its_reason() -> None:
    table = kept()
    assert len(table) == len(list(all_cells()))
    results = json.loads((ROOT / "docs" / "matrix.json").read_text())
    ran = table[table["verdict"] == "succeeded"]
    assert len(ran) == sum(result["verdict"] == "succeeded" for result in results.values())
    assert ran["evidence"].map(bool).all()
    assert table[table["verdict"].isin(["unsupported", "not applicable"])]["reason"].map(bool).all()


def test_each_case_has_a_description() -> None:
    assert list(cases()["case"]) == [case.value for case in Case]
