"""Histories that are judged while they go on."""

from pathlib import Path

import pytest

from tests.support.clusters import peers, state
from tests.support.long_history import long_history
from tests.support.waiting import eventually
from toolkit.checks.history import History
from toolkit.checks.live import check_so_far
from toolkit.checks.long_run import LongRun
from toolkit.cluster import up
from toolkit.cluster.history_checks import Judging
from toolkit.cluster.live_history import LiveHistory

__all__ = ["state"]


def test_judged_records_leave_memory_and_stay_in_the_file(tmp_path: Path) -> None:
    history = LiveHistory(tmp_path / "history.ndjson", 1_000_000)
    judging = Judging(history, 5000)
    records = long_history("v2-crc", 1000)
    for record in records:
        history.put(record.time_s, record.node, record.kind, dict(record.fields))
    judging.start()
    eventually(lambda: (judging.status()["judged_until_s"] or 0) > 30)
    judging.stop()
    history.flush()
    about = judging.status()
    assert (about["records"], about["on_disk"]) == (len(records), len(records))
    assert about["in_memory"] < 0.8 * len(records)
    assert len(History.load(history.path)) == len(records)
    known, behind = history.behind(len(records) - 10, 5)
    assert (known, [record.time_s for record in behind]) == (
        len(records) - 5,
        [record.time_s for record in records[-10:-5]],
    )
    history.close()


def test_a_run_of_many_times_the_limit_is_judged_to_its_end_and_its_file_is_complete(tmp_path: Path) -> None:
    history = LiveHistory(tmp_path / "history.ndjson", limit=6000)
    run = LongRun(history, history.fold, every=2000, settled_s=10.0)
    records = long_history("v2-crc", 1500)
    wrong = next(at for at in range(len(records) * 9 // 10, len(records)) if records[at].kind == "deliver")
    records.insert(wrong + 1, records[wrong])
    most = 0
    for record in records:
        history.put(record.time_s, record.node, record.kind, dict(record.fields))
        if history.count % 500 == 0:
            run.look()
            most = max(most, len(history))
    history.flush()
    assert history.is_whole
    assert most < 6000 < len(records) / 4
    assert history.count == history.on_disk == len(records)
    assert [record.fields for record in History.load(history.path)] == [record.fields for record in records]
    results = run.completed(check_so_far(history), [record.time_s for record in history])
    (lossless,) = (result for result in results if result.id == "INV-1")
    assert [violation.text.partition(": ")[2] for violation in lossless.violations] == [
        f"tid {records[wrong]['tid']} from {records[wrong]['peer']} session 1 is delivered again"
    ]
    history.close()


def test_history_continues_in_memory_after_the_file_limit(tmp_path: Path) -> None:
    history = LiveHistory(tmp_path / "history.ndjson", 1_000_000, disk_bytes=500)
    for number in range(20):
        history.append(float(number), "a", "clock", step_s=1.0)
        history.flush()
    assert len(history) == history.count == 20
    assert history.unwritten_s is not None
    assert 500 <= history.path.stat().st_size < 600
    assert history.on_disk == len(History.load(history.path)) == int(history.unwritten_s)
    history.close()


@pytest.mark.usefixtures("state")
def test_cluster_reports_how_far_it_is_judged() -> None:
    beats = [{"from": "a", "to": "b", "every_ms": 5}]
    with up(peers(traffic=beats), settings=["judged_every=200"]) as cluster:
        eventually(lambda: cluster.status()["judged_until_s"] is not None)
        assert cluster.judging.long_run is not None
        assert [each.id for each in cluster.judging.long_run.results if not each.ok] == []
        assert [each.id for each in cluster.check() if not each.ok] == []
        assert "judged up to 0.0 s" in cluster._repr_html_()
