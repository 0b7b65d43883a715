"""Conformance from Python: cases against an address, with a verdict on a target that was spoiled; kept results."""

import asyncio
from collections.abc import Callable

import pytest

from messenger.errors import LocalError
from toolkit.cluster import Cluster
from toolkit.cluster.spec import parse_spec
from toolkit.conformance import Results, kept, try_address
from toolkit.faults.live import Proxy


@pytest.fixture(scope="module")
def cluster(msgrlab_shared_cluster: Callable[..., Cluster]) -> Cluster:
    return msgrlab_shared_cluster(parse_spec("nodes: {a: {entity: osd.1}}", "conformance-results.yaml"))


def tried(cluster: Cluster, address: str, *only: str) -> Results:
    return try_address(address, only, name="osd.9", key_log=cluster.directory / "service.keys")


def test_conformance_runs_inside_an_event_loop(cluster: Cluster) -> None:
    async def in_a_notebook() -> Results:
        return tried(cluster, cluster.nodes["a"].address.strip("[]"), "v2/banner")

    results = asyncio.run(in_a_notebook())
    assert results.counts == {"pass": 17}
    assert list(results.table()["case"]) == [f"v2/banner/{number}" for number in range(1, 18)]
    assert "v2/banner/17" in results._repr_html_()


def test_target_behind_a_cutting_proxy_differs_in_the_affected_case(cluster: Cluster) -> None:
    endpoint, nonce = cluster.nodes["a"].address.strip("[]").removeprefix("v2:").split("/")
    keys = str(cluster.directory / "service.keys")
    with Proxy(endpoint, ["-> ACK: cut before"], key_logs=[keys], pretend=True) as proxy:
        spoiled = tried(cluster, f"v2:{proxy.address}/{nonce}", "v2/ack/1", "v2/ack/5")
    assert [(one.case.id, one.outcome) for one in spoiled.differing] == [("v2/ack/1", "closed")]
    assert spoiled.counts == {"differs": 1, "pass": 1}
    assert "sends ACK" in spoiled.differing[0].log


def test_an_unknown_case_is_refused_before_anything_is_dialled() -> None:
    with pytest.raises(LocalError, match="--only 'v3' matches no case"):
        try_address("v2:127.0.0.1:1", ["v3"])


def test_kept_results_are_a_row_for_each_case_of_each_target() -> None:
    table = kept()
    assert not table.duplicated(["target", "case"]).any()
    node = table[table["target"] == "node"]
    assert set(node["verdict"]) == {"pass"}
    assert {"v2/ack", "v1/banner"} <= set(node["area"])
    assert set(table[table["verdict"] != "pass"]["verdict"]) == {"as classic"}
