"""Runs shared by the workers of a Dask cluster: the same results, also when workers are lost."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import LocalCluster

from tests.support.ports import low_port
from toolkit.cli.main import run as msgrlab
from toolkit.errors import Unsupported
from toolkit.lab.campaign import Tally
from toolkit.simulation.lives import run_seeds

pytestmark = pytest.mark.xdist_group("dask")  # one cluster for all of them

SEEDS = range(60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None, host="127.0.0.1") as made:
        yield made


def test_a_lost_worker_loses_no_seed(cluster: LocalCluster) -> None:
    killed = []

    def kill_one(_: Tally) -> None:
        if not killed:
            killed.append(cluster.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    shared = run_seeds(SEEDS, dask=cluster.scheduler_address, progress=kill_one).tally
    alone = run_seeds(SEEDS, jobs=1).tally
    assert killed
    assert shared.runs == len(SEEDS)
    assert (shared.events, shared.records, shared.marks) == (alone.events, alone.records, alone.marks)


def test_scenarios_and_seeds_take_an_address(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["--dask", cluster.scheduler_address, "--json"]
    assert msgrlab(["run", "reconnect", "standby", *shared]) == 0
    assert [run["passed"] for run in json.loads(capsys.readouterr().out)["runs"]] == [True, True]
    assert msgrlab(["sim", "--seeds", "12", "reconnect", *shared]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 12


def test_workers_with_other_code_are_refused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("toolkit.machine.workers.PACKAGES", tmp_path)
    with pytest.raises(Unsupported, match="has another msgrlab than this machine"):
        run_seeds(SEEDS, dask=cluster.scheduler_address)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["sim", "--dask", "tcp://127.0.0.1:{port}"], 3, "no Dask scheduler answers at tcp://127.0.0.1:"),
        (["sim", "--dask", "nonsense://here"], 3, "no Dask scheduler answers at nonsense://here"),
        (["sim", "--dask", "local", "--jobs", "2"], 2, "--jobs and --dask exclude each other"),
        (["run", "reconnect", "--dask", "local", "--jobs", "2"], 2, "--jobs and --dask exclude each other"),
    ],
)
def test_sharing_errors_are_one_line(
    arguments: list[str],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolkit.machine.workers._ANSWER_S", 0.5)
    assert msgrlab([word.format(port=low_port()) for word in arguments]) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
