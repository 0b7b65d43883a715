"""Timing clusters; what the figures are is the machine's business."""

import pytest

from tests.support.clusters import answer_of, msgrlab, remains, state
from toolkit.bench.clusters import Kind, measure_clusters

__all__ = ["state"]


def test_bench_times_a_cluster_and_removes_it(state):
    (row,) = answer_of("bench", "clusters", "--backends", "process", "--rounds", "1", "--json")["clusters"][:1]
    assert (row["cluster"], row["backend"], row["problem"]) == ("two-peers", "process", "")
    assert row["up_s"] > row["floor_s"] > 0
    assert row["down_s"] > 0
    assert remains(state) == []


@pytest.mark.usefixtures("state")
def test_failed_start_reports_its_cause():
    (result,) = measure_clusters([Kind("two-peers", "podman")], 3)
    assert result.up_s is None
    assert "unknown backend 'podman'" in result.problem


def test_bench_refuses_an_unknown_backend():
    refused = msgrlab("bench", "clusters", "--backends", "process,moon")
    assert (refused.returncode, "unknown backend 'moon'; known: process, netns, docker" in refused.stderr) == (
        2,
        True,
    )
