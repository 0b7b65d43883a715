"""Clusters that a notebook or program keeps up without a ``with`` block."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import done, environment, msgrlab, peers, remains, state
from tests.support.waiting import eventually
from toolkit.cluster import up

__all__ = ["state"]  # a fixture


def test_a_cluster_stays_up_until_it_is_taken_down(state: Path, tmp_path: Path) -> None:
    cluster = up(peers(), keep=tmp_path / "kept", settings="speaks.mode=secure")
    assert cluster.spec.speaks.mode == "secure"
    cluster.nodes["a"].command("send", peer="b", count=3)
    assert cluster.fault("reset a b")
    cluster.down()
    cluster.down()
    assert (tmp_path / "kept/history.ndjson").exists()
    assert remains(state) == []
    with pytest.raises(LocalError, match="cluster 'pair' is down"):
        cluster.fault("reset a b")


def test_a_cell_that_is_run_again_starts_its_cluster_again(state: Path) -> None:
    first = up(peers())
    second = up(peers())
    assert (first.nodes["a"].state, second.nodes["a"].state) == ("down", "up")
    with second, pytest.raises(LocalError, match="a cluster 'pair' exists already"):
        up(peers())
    assert remains(state) == []


def test_commands_reach_the_cluster_of_a_notebook(state: Path, tmp_path: Path) -> None:
    cluster = up(peers())
    assert "pair on process: up" in done("status")
    done("tell", "a", "send", "b", "--count", "3")
    eventually(lambda: [one["in_seq"] for one in cluster.nodes["b"].status()["sessions"]] == [3])
    done("fault", "freeze", "b")
    assert cluster.nodes["b"].state == "frozen"
    assert done("down", "--keep", str(tmp_path / "kept")) == "pair: down\n"
    assert (tmp_path / "kept/pair/history.ndjson").exists()
    assert remains(state) == []
    with pytest.raises(LocalError, match="cluster 'pair' is down"):
        cluster.fault("thaw b")


@pytest.mark.usefixtures("state")
def test_a_history_that_was_kept_is_not_in_the_way_of_another_one(tmp_path: Path) -> None:
    with up(peers(), keep=tmp_path):
        pass
    before = (tmp_path / "history.ndjson").read_bytes()
    with pytest.raises(LocalError, match="has the history of a cluster already: give another directory"):
        up(peers(), keep=tmp_path)
    assert (tmp_path / "history.ndjson").read_bytes() == before


def test_files_that_have_the_name_of_others_stay_in_the_directory(state: Path, tmp_path: Path) -> None:
    cluster = up(peers(), keep=tmp_path)
    (tmp_path / "history.ndjson").write_text("of others")
    with pytest.raises(LocalError, match=r"it exists already.*the files are still in .*pair"):
        cluster.down()
    assert (state / "pair/history.ndjson").stat().st_size
    done("down", "pair")


PROGRAM = """
import os, signal, sys
from toolkit.cluster import up
cluster = up("two-peers", backend=sys.argv[1], keep=sys.argv[2])
if sys.argv[3] == "fork":
    if os.fork() == 0:
        sys.exit()
    os.wait()
    assert cluster.nodes["a"].command("session", peer="b")
elif sys.argv[3] == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
"""


@pytest.mark.parametrize(
    ("backend", "end", "code"),
    [
        ("process", "at its end", 0),
        ("process", "fork", 0),
        ("process", "interrupt", -signal.SIGINT),
        pytest.param("netns", "at its end", 0, marks=pytest.mark.needs("netns")),
    ],
)
def test_a_cluster_goes_down_with_its_program(
    backend: str, end: str, code: int, state: Path, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", PROGRAM, backend, str(tmp_path / "kept"), end]
    ran = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr if code == 0 else "") == (code, "")
    assert (tmp_path / "kept/history.ndjson").stat().st_size > 1000
    assert msgrlab("status").stdout.startswith("no cluster is up")
    assert remains(state) == []
