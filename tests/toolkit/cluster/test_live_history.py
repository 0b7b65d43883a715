"""Histories that are written while they happen, on disks that become full."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import answer_of, command_line, done, environment
from tests.support.users import needs_root
from tests.support.waiting import eventually
from toolkit.checks.history import History
from toolkit.cluster.live_history import LiveHistory
from toolkit.machine.leases import STATE_VARIABLE

DISK_KIB = 400
DELIVERED = {"session": 1, "peer": "x", "tid": 1, "seq": 1, "digest": "00", "size": 1}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    where = tmp_path / "disk"
    where.mkdir()
    options = f"size={DISK_KIB}k,mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", where], check=True)
    yield where
    subprocess.run(["umount", "--lazy", where], check=True)


def fill(disk: Path, *, leaving_bytes: int = 0) -> None:
    """Leave that much room."""
    free = shutil.disk_usage(disk).free
    (disk / "filling").write_bytes(bytes(max(0, free - leaving_bytes)))


def test_history_writes_every_record_to_its_file(tmp_path: Path) -> None:
    history = LiveHistory(tmp_path / "history.ndjson", 1000)
    for number in range(100):
        history.put(number / 10, "a", "deliver", dict(DELIVERED))
    history.close()
    assert (tmp_path / "history.ndjson").stat().st_mode & 0o777 == 0o600
    assert History.load(tmp_path / "history.ndjson").records == history.records
    assert (history.is_whole, history.trouble) == (True, "")


@needs_root
def test_history_drops_records_that_a_full_disk_refuses(disk: Path) -> None:
    fill(disk, leaving_bytes=8192)
    history = LiveHistory(disk / "history.ndjson", 100_000)
    for number in range(1000):
        history.put(number / 100, "ab"[number % 2], "deliver", dict(DELIVERED))
        history.flush()
    assert history.trouble == f"{disk}/history.ndjson: No space left on device"
    assert not history.is_whole
    history.close()
    written = History.load(disk / "history.ndjson")
    assert 10 < len(written) < 1000
    assert written.records == history.records
    assert history.full_s is not None
    assert history.records[-1].time_s < history.full_s < history.records[-1].time_s + 0.05


@needs_root
def test_history_on_a_full_disk_ends_where_all_nodes_have_records(disk: Path) -> None:
    fill(disk, leaving_bytes=8192)
    history = LiveHistory(disk / "history.ndjson", 100_000)
    history.put(0.0, "slow", "deliver", dict(DELIVERED))
    history.put(1.0, "slow", "deliver", dict(DELIVERED))
    history.put(0.5, "fast", "deliver", dict(DELIVERED))
    for number in range(1000):
        history.put(1.5 + number / 1000, "fast", "deliver", dict(DELIVERED))
        history.flush()
    assert [(record.node, record.time_s) for record in history.records] == [
        *(("slow", 0.0), ("slow", 1.0), ("fast", 0.5))
    ]
    assert history.full_s == 1.5
    history.close()
    assert History.load(disk / "history.ndjson").records == history.records


@needs_root
def test_node_without_records_does_not_take_the_whole_limit(disk: Path) -> None:
    fill(disk, leaving_bytes=65_536)
    history = LiveHistory(disk / "history.ndjson", 100_000)
    history.put(0.0, "silent", "deliver", dict(DELIVERED))
    for number in range(1000):
        history.put(float(number), "busy", "deliver", dict(DELIVERED))
        history.flush()
    assert not history.is_whole
    assert history.records[-1].time_s > 100


def test_a_file_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"nowhere/history\.ndjson: No such file or directory"):
        LiveHistory(tmp_path / "nowhere" / "history.ndjson", 1)


@needs_root
def test_a_full_disk_is_named_and_makes_no_verdict_wrong(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(disk / "state"))
    traffic = "traffic=[{from: a, to: b, every_ms: 2}, {from: b, to: a, every_ms: 2}]"
    done("up", "two-peers", "--set", traffic)
    try:
        eventually(lambda: answer_of("status", "--json")["clusters"][0]["full_why"])
        (about,) = answer_of("status", "--json")["clusters"]
        assert about["full_why"] == f"{disk}/state/two-peers/history.ndjson: No space left on device"
        assert about["checks"]["failed"] == []
        assert [node["state"] for node in about["nodes"].values()] == ["up", "up"]
        assert f"{about['full_why']}: nothing since " in done("status").replace("\n", "")
    finally:
        assert done("down") == "two-peers: down\n"


@needs_root
def test_up_on_a_full_disk_leaves_nothing(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(disk / "state"))
    assert done("status") == "no cluster is up: msgrlab up two-peers\n"
    (disk / "state").mkdir(mode=0o700)
    fill(disk)
    failed = subprocess.run(
        command_line("up", "two-peers"), env=environment(), capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert str(disk / "state") in failed.stderr
    assert "No space left on device" in failed.stderr
    assert [path.name for path in (disk / "state").iterdir()] == [".lock"]
