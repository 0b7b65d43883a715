"""The cells of the matrix, why some are not run, and how some are chosen."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from messenger.errors import LocalError
from toolkit.matrix.cases import CASES
from toolkit.matrix.table import AUTHS, RELEASES, WIRES, Case, Cell, Role, Verdict, cells, reason_of, select

ROOT = Path(__file__).parents[3]


def cell(text: str) -> Cell:
    release, wire, auth, role, case = text.split("/")
    return Cell(release, wire, auth, Role(role), Case(case))


def test_a_cell_is_one_of_each_axis() -> None:
    every = list(cells())
    assert len(every) == len(RELEASES) * len(WIRES) * len(AUTHS) * len(Role) * len(Case)
    assert len({each.id for each in every}) == len(every)
    assert cell("reef/v2-secure/aes/peer/replay").id == "reef/v2-secure/aes/peer/replay"


@pytest.mark.parametrize(
    ("text", "verdict", "owner"),
    [
        ("reef/v2-secure/none/server/traffic", Verdict.UNSUPPORTED, "protocol"),
        ("reef/v2-crc/aes256k/server/traffic", Verdict.UNSUPPORTED, "Ceph"),
        ("pacific/v2-compressed/aes/peer/traffic", Verdict.UNSUPPORTED, "Ceph"),
        ("reef/v2-compressed/aes/server/traffic", Verdict.UNSUPPORTED, "Ceph"),
        ("pacific/v2-compressed/aes/client/traffic", Verdict.UNSUPPORTED, "Ceph"),
        ("reef/v2-crc/aes/server/replay", Verdict.NOT_APPLICABLE, "protocol"),
        ("reef/v2-crc/none/server/rekey", Verdict.NOT_APPLICABLE, "protocol"),
    ],
)
def test_unsupported_cell_has_a_reason_and_an_owner(text: str, verdict: Verdict, owner: str) -> None:
    reason = reason_of(cell(text))
    assert reason is not None
    assert (reason.verdict, reason.owner) == (verdict, owner)
    assert str(reason).startswith(f"{owner}: ")


@pytest.mark.parametrize(
    "text",
    [
        "tentacle/v2-crc/aes256k/server/rekey",
        "nautilus/v2-secure/aes/client/reconnect",
        "reef/v2-compressed/none/peer/replay",
        "reef/v2-compressed/aes/client/rekey",
        "nautilus/v1/aes/peer/rekey",
        "pacific/v1/none/peer/standby",
    ],
)
def test_supported_cell_has_no_reason(text: str) -> None:
    assert reason_of(cell(text)) is None


def test_no_cell_is_unsupported_because_of_msgrlab() -> None:
    owners = {reason.owner for each in cells() if (reason := reason_of(each)) is not None}
    assert owners == {"Ceph", "protocol"}


def test_there_is_a_case_for_exactly_what_can_be_run() -> None:
    assert {(each.role, each.case) for each in cells() if reason_of(each) is None} == set(CASES)


def test_select_matches_patterns_as_prefixes() -> None:
    assert {each.release for each in select(["reef"])} == {"reef"}
    assert {(each.wire, each.auth) for each in select(["reef/v1/none/"])} == {("v1", "none")}
    assert {each.case for each in select(["*/server/loss*"])} == {Case.LOSS_1, Case.LOSS_10}
    assert {each.release for each in select(["*/v1"], ["host", "reef"])} == {"host", "reef"}
    assert len(select()) == len(list(cells()))


def test_select_refuses_patterns_that_match_no_cell() -> None:
    with pytest.raises(LocalError, match="--only 'v3' matches no cell"):
        select(["reef", "v3"])
    with pytest.raises(LocalError, match="--release: unknown release 'quincy'; known: nautilus"):
        select([], ["quincy"])


# ---- the page of results


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_matrix", ROOT / "docs" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_results_is_up_to_date(docs: ModuleType) -> None:
    results = json.loads(docs.RESULTS.read_text())
    assert docs.page(results) == docs.PAGE.read_text(), "PYTHONPATH=. python docs/matrix.py"


def test_page_shows_exactly_the_cells_that_were_run(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "RESULTS", tmp_path / "matrix.json")
    monkeypatch.setattr(docs, "PAGE", tmp_path / "matrix.md")
    rows = [
        row("reef/v1/aes/server/handshake", "succeeded"),
        row("reef/v1/aes/server/traffic", "failed", "two | columns\nand a line"),
        row("reef/v1/aes/server/restart", "not run", "the run ended before it"),
    ]
    (tmp_path / "run.json").write_text(json.dumps({"results": rows}))
    docs.main([str(tmp_path / "run.json")])
    text = docs.PAGE.read_text()
    (line,) = [each for each in text.splitlines() if each.startswith("| reef v1 aes | ok")]
    assert line == "| reef v1 aes | ok | **failed** | · | n/a | n/a | n/a | · | · | · | · |"
    assert "| reef/v1/aes/server/traffic | two \\| columns and a line |" in text
    assert "1 succeeded, 1 failed" in text
    assert list(json.loads(docs.RESULTS.read_text())) == [row["id"] for row in rows[:2]]


def row(id_: str, verdict: str, reason: str = "") -> dict[str, Any]:
    return {"id": id_, "verdict": verdict, "reason": reason, "evidence": ["seen"]}
