"""Runs of the matrix on grounds that are none: what becomes of errors, reasons, clusters and interruptions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.matrix.evidence import EvidenceMissing, require
from toolkit.matrix.ground import NotServed
from toolkit.matrix.runner import Outcome, Run
from toolkit.matrix.table import Cell, Verdict, select


@dataclass
class FakeTrial:
    cell: Cell
    directory: Path
    evidence: list[str] = field(default_factory=list)


@dataclass
class Fake:
    """Grounds without a cluster, and what was opened and closed."""

    log: list[str] = field(default_factory=list)
    error: Exception | None = None

    @contextmanager
    def open(self, cell: Cell) -> Iterator["Fake"]:
        if self.error is not None:
            raise self.error
        self.log.append("up " + "/".join(map(str, cell.setup)))
        try:
            yield self
        finally:
            self.log.append("down")

    @contextmanager
    def trial(self, cell: Cell, directory: Path) -> Iterator[FakeTrial]:
        directory.mkdir(parents=True)
        self.log.append(f"{cell.role} {cell.case}")
        yield FakeTrial(cell, directory)


def run(directory: Path, only: list[str], case: Callable[[Any], None], fake: Fake | None = None) -> Run:
    return Run(select(only), directory, grounds=(fake or Fake()).open, case=case)


def fine(trial: FakeTrial) -> None:
    trial.evidence.append(f"{trial.cell.case} was seen")


def by_id(outcomes: list[Outcome]) -> dict[str, Outcome]:
    return {outcome.cell.id: outcome for outcome in outcomes}


def test_cells_of_one_setup_share_a_cluster(tmp_path: Path) -> None:
    fake = Fake()
    run(tmp_path, ["reef/v1/aes/*/handshake", "reef/v1/none/*/handshake"], fine, fake).go()
    assert fake.log == [
        *("up reef/v1/none/False", "server handshake", "peer handshake", "down"),
        *("up reef/v1/none/True", "client handshake", "down"),
        *("up reef/v1/aes/False", "server handshake", "peer handshake", "down"),
        *("up reef/v1/aes/True", "client handshake", "down"),
    ]


def test_runner_starts_no_cluster_for_unsupported_cells(tmp_path: Path) -> None:
    fake = Fake()
    outcomes = run(tmp_path, ["reef/v2-secure/none", "reef/v1/aes/server/standby"], fine, fake).go()
    assert fake.log == []
    assert {outcome.verdict for outcome in outcomes} == {Verdict.UNSUPPORTED, Verdict.NOT_APPLICABLE}
    assert not any(outcome.was_run or outcome.is_failure for outcome in outcomes)


def test_outcome_contains_the_evidence_and_the_command_to_repeat(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, ["reef/v1/aes/server/traffic"], fine).go()
    assert (outcome.verdict, outcome.evidence) == (Verdict.SUCCEEDED, ("traffic was seen",))
    assert outcome.command == "msgrlab matrix --only reef/v1/aes/server/traffic"
    assert (tmp_path / "reef-v1-aes-server-traffic" / "outcome.txt").read_text() == (
        "succeeded\ntraffic was seen\n\nagain:\n  msgrlab matrix --only reef/v1/aes/server/traffic\n"
    )
    assert outcome.as_json()["evidence"] == ["traffic was seen"]


@pytest.mark.parametrize(
    ("error", "verdict", "reason"),
    [
        (EvidenceMissing("no frame of it"), Verdict.FAILED, "no frame of it"),
        (LocalError("it broke"), Verdict.FAILED, "LocalError: it broke"),
        (Unsupported("no netem"), Verdict.UNSUPPORTED, "machine: no netem"),
        (NotServed("EPERM"), Verdict.NOT_RUN, "Ceph: its own programs fail with each other: EPERM"),
    ],
)
def test_error_of_a_cell_does_not_affect_other_cells(
    error: Exception, verdict: Verdict, reason: str, tmp_path: Path
) -> None:
    def case(trial: FakeTrial) -> None:
        fine(trial)
        if trial.cell.case == "traffic":
            raise error

    only = [f"reef/v1/aes/server/{name}" for name in ("handshake", "traffic", "reconnect")]
    found = by_id(run(tmp_path, only, case).go())
    assert [found[id_].verdict for id_ in only] == [Verdict.SUCCEEDED, verdict, Verdict.SUCCEEDED]
    assert (found[only[1]].reason, found[only[1]].evidence) == (reason, ("traffic was seen",))
    assert found[only[1]].is_failure is (verdict is not Verdict.UNSUPPORTED)


@pytest.mark.parametrize(
    ("error", "verdict", "reason"),
    [
        (Unsupported("netns needs root"), Verdict.UNSUPPORTED, "machine: netns needs root"),
        (
            LocalError("osd ended\nits log"),
            Verdict.NOT_RUN,
            "the cluster could not be started or stopped: osd ended",
        ),
    ],
)
def test_without_a_cluster_nothing_is_run(error: Exception, verdict: Verdict, reason: str, tmp_path: Path) -> None:
    outcomes = run(
        tmp_path, ["reef/v1/aes/server/re*start", "reef/v1/aes/server/traffic"], fine, Fake(error=error)
    ).go()
    assert {(outcome.verdict, outcome.reason) for outcome in outcomes} == {(verdict, reason)}
    assert not any(outcome.was_run for outcome in outcomes)


def test_an_interruption_takes_the_cluster_down_and_keeps_what_was_run(tmp_path: Path) -> None:
    def case(trial: FakeTrial) -> None:
        if trial.cell.case == "traffic":
            raise KeyboardInterrupt

    fake = Fake()
    going = run(tmp_path, ["reef/v1/aes/server"], case, fake)
    with pytest.raises(KeyboardInterrupt):
        going.go()
    assert fake.log[-1] == "down"
    verdicts = {outcome.cell.case.value: outcome.verdict for outcome in going.so_far()}
    assert (verdicts["handshake"], verdicts["traffic"]) == (Verdict.SUCCEEDED, Verdict.NOT_RUN)
    assert verdicts["standby"] is Verdict.NOT_APPLICABLE


def test_evidence_is_required() -> None:
    require([1], "there is some")
    with pytest.raises(EvidenceMissing, match="there is none"):
        require([], "there is none")
