"""Runs of the matrix shared by workers of a Dask cluster, on grounds that are none, also when workers are lost."""

import json
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from tests.support.ports import low_port
from tests.toolkit.matrix.test_runner import Fake, FakeTrial, fine
from toolkit.cli.main import run as msgrlab
from toolkit.matrix.evidence import require
from toolkit.matrix.shared_run import SharedRun
from toolkit.matrix.table import HOST, Verdict, select

pytestmark = pytest.mark.xdist_group("dask")

SETUPS = ("reef/v1/none/server", "reef/v1/aes/server", "pacific/v1/aes/server")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    options = {"dashboard_address": None, "host": "127.0.0.1", "threads_per_worker": 1}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=2, **options) as made,
    ):
        yield made


def writes(trial: FakeTrial) -> None:
    fine(trial)
    (trial.directory / "capture.pcapng").write_bytes(b"packets")


def dies_once(log: Path, trial: FakeTrial) -> None:
    """The first worker that comes to the traffic of a setup is lost there."""
    writes(trial)
    if trial.cell.auth == "none":
        with log.open("a") as file:
            file.write(f"{trial.cell.case} {os.getpid()}\n")
        if trial.cell.case == "traffic" and log.read_text().count("traffic") == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def always_dies(trial: FakeTrial) -> None:
    if trial.cell.auth == "none":
        os.kill(os.getpid(), signal.SIGKILL)
    require(trial.cell.case != "restart", "no second address")


@pytest.mark.needs("ceph-osd", "ceph-mon", "ceph", "netns")
def test_a_worker_runs_cells_with_real_daemons(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ["--release", HOST, "--only", f"{HOST}/v2-secure/aes/client/handshake", "--out", str(out), "--json"]
    assert msgrlab(["matrix", "--dask", cluster.scheduler_address, *words]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["machine"] == os.uname().nodename
    left = {path.name for path in (out / "host-v2-secure-aes-client-handshake").iterdir()}
    assert {"capture.pcapng", "ceph.keyring", "history.ndjson", "outcome.txt"} <= left


def waits(trial: FakeTrial) -> None:
    """The first case ends at once, the second one never, as far as its caller can see."""
    fine(trial)
    if trial.cell.case == "traffic":
        time.sleep(60)


def test_the_cells_of_a_lost_worker_are_run_by_another(cluster: LocalCluster, tmp_path: Path) -> None:
    log, out, lines = tmp_path / "log", tmp_path / "out", list[str]()
    run = SharedRun(
        *(select(SETUPS), out),
        grounds=Fake().open,
        case=partial(dies_once, log),
        dask=cluster.scheduler_address,
        progress=lines.append,
    )
    outcomes = run.go()
    begun = [line.split() for line in log.read_text().splitlines()]
    assert [case for case, _ in begun[:4]] == ["handshake", "traffic", "handshake", "traffic"]
    assert len({pid for _, pid in begun}) == 2
    assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED, Verdict.NOT_APPLICABLE}
    assert [outcome.cell for outcome in outcomes] == select(SETUPS)
    assert len({outcome.cell for outcome in run.outcomes}) == len(run.outcomes)
    assert {line.partition(" ")[0] for line in lines} == {
        outcome.cell.id for outcome in outcomes if outcome.was_run
    }
    for outcome in outcomes:
        if outcome.was_run:
            assert outcome.directory == out / outcome.cell.id.replace("/", "-")
            assert (outcome.directory / "capture.pcapng").read_bytes() == b"packets"
            assert outcome.machine in lines[0]
            assert outcome.evidence == (f"{outcome.cell.case} was seen",)


def test_setup_that_kills_its_workers_is_skipped_and_others_run(cluster: LocalCluster, tmp_path: Path) -> None:
    run = SharedRun(
        *(select(SETUPS), tmp_path), grounds=Fake().open, case=always_dies, dask=cluster.scheduler_address
    )
    found = {outcome.cell.id: outcome for outcome in run.go()}
    assert found["reef/v1/none/server/handshake"].verdict is Verdict.NOT_RUN
    assert found["reef/v1/none/server/handshake"].reason == "each of 2 workers was lost that had it"
    assert found["reef/v1/aes/server/restart"].verdict is Verdict.FAILED
    assert "no second address" in (tmp_path / "reef-v1-aes-server-restart" / "outcome.txt").read_text()
    assert found["pacific/v1/aes/server/handshake"].verdict is Verdict.SUCCEEDED


def test_unreachable_scheduler_is_one_line_and_leaves_no_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("toolkit.machine.workers._ANSWER_S", 0.5)
    out = tmp_path / "out"
    words = ["matrix", "--only", "reef/v1", "--dask", f"127.0.0.1:{low_port()}", "--out", str(out)]
    assert msgrlab(words) == 3
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "no Dask scheduler answers at 127.0.0.1:" in printed.err
    assert not out.exists()


def test_calls_are_lost_if_no_worker_returns(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("toolkit.machine.workers._ABSENT_S", 0.5)
    monkeypatch.setattr("toolkit.machine.workers._LOOK_S", 0.1)
    workers = len(cluster.workers)
    run = SharedRun(
        *(select(SETUPS), tmp_path),
        grounds=Fake().open,
        case=waits,
        dask=cluster.scheduler_address,
        progress=lambda _line: cluster.scale(0),
    )
    found = {outcome.cell.id: outcome for outcome in run.go()}
    cluster.scale(workers)
    lost = found["reef/v1/aes/server/traffic"]
    assert (lost.verdict, lost.reason) == (Verdict.NOT_RUN, "the Dask cluster has lost all its workers")
