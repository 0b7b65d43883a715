"""A swarm of two Docker engines, of which one is killed while a cluster runs."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import remains
from tests.support.engines import Engine
from tests.support.swarms import two_engines
from tests.support.waiting import eventually
from toolkit.cluster import up
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.images import names, node
from toolkit.cluster.spec import ClusterSpec
from toolkit.machine.docker_objects import labelled
from toolkit.machine.labels import DOCKER_LABEL
from toolkit.machine.leases import Lease

pytestmark = [pytest.mark.needs("docker"), pytest.mark.needs("netns")]

FOUR = {
    "name": "four",
    "nodes": {"n": {"entity": "osd.0", "count": 4}},
    "traffic": [{"from": "n", "to": "n", "every_ms": 50}],
}
DOWN_S = 40.0
"""Longest time that a cluster takes to go down without one of its engines."""


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Engine, Engine]]:
    node.build(announce=lambda _: None)
    with two_engines(names.tag("node")) as both:
        yield both


@pytest.fixture
def swarm(engines: tuple[Engine, Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts of Docker for the engines, and a state directory."""
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("MSGRLAB_SWARM", "one,two")
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text("{}")  # without it the SDK looks for contexts elsewhere
    for name, engine in zip(("one", "two"), engines, strict=True):
        engine.run("context", "create", name, "--docker", f"host={engine.host}")


def delivered(cluster: Cluster, sender: str, receiver: str) -> int:
    history = cluster.history.so_far()
    return sum(record.node == receiver and record["peer"] == sender for record in history.of("deliver"))


@pytest.mark.usefixtures("swarm")
@pytest.mark.needs("nft")
def test_links_between_engines_are_impaired_captured_and_proxied() -> None:
    """Both engines are on this machine, each in a network namespace of its own."""
    spec = ClusterSpec.model_validate(
        {
            "name": "pair",
            "nodes": {"n": {"entity": "osd.0", "count": 2}},
            "traffic": [{"from": "n0", "to": "n1", "every_ms": 50}],
            "captures": [{"node": "n1"}],
            "proxies": [{"from": "n0", "to": "n1", "script": ["-> MESSAGE #3: cut"]}],
        }
    )
    with up(spec, backend="swarm") as cluster:
        eventually(lambda: delivered(cluster, "n0", "n1") > 5)
        assert [record["detail"] for record in cluster.history.so_far().of("cut")] != []
        before_s = dial_s(cluster)
        cluster.fault("link n0 n1 delay-ms=300 --both-ways")
        assert dial_s(cluster) > 0.6 > before_s
        cluster.fault("heal")
        assert dial_s(cluster) < 0.6
        kept = cluster.lease.directory / "n1.pcapng"
        assert kept.stat().st_size > 10_000


def dial_s(cluster: Cluster) -> float:
    """Return the seconds that n0 needs to connect to n1."""
    ask = "import socket, sys, time; t = time.monotonic(); socket.create_connection((sys.argv[1], 6800), 9)"
    hosts = cluster.backend.hosts
    address = next(iter(hosts["n1"].addresses.values()))
    return float(hosts["n0"].run("python3", "-c", f"{ask}; print(time.monotonic() - t)", address))


@pytest.mark.usefixtures("swarm")
def test_cluster_survives_the_death_of_an_engine(engines: tuple[Engine, Engine], tmp_path: Path) -> None:
    one, two = engines
    upkeep = up(ClusterSpec.model_validate(FOUR), backend="swarm")
    cluster = upkeep.__enter__()
    label = f"{DOCKER_LABEL}={cluster.lease.label}"
    eventually(lambda: delivered(cluster, "n0", "n2") > 0 and delivered(cluster, "n1", "n0") > 0)
    assert cluster.status()["lost"] == {}

    two.lose_power()
    eventually(lambda: cluster.status()["lost"] == {"Docker at context://two": ["n1", "n3"]})
    about = cluster.status()
    assert {name: each["state"] for name, each in about["nodes"].items()} == {
        "n0": "up",
        "n1": "lost",
        "n2": "up",
        "n3": "lost",
    }
    assert "Docker at context://two does not answer: n1, n3" in cluster._repr_html_()
    before = delivered(cluster, "n0", "n2")
    eventually(lambda: delivered(cluster, "n0", "n2") > before + 3)

    began_s = time.monotonic()
    problems = cluster.take_down()
    assert time.monotonic() - began_s < DOWN_S
    assert any("context://two" in problem for problem in problems)
    assert [each for each in labelled(label, one.host) if each.startswith("container")] == []

    two.start()
    eventually(lambda: b"active" in two.run("info", "--format", "{{.Swarm.LocalNodeState}}").stdout.split())
    assert labelled(label, two.host) != []
    assert Lease.find("four").journal.undo() == []
    assert labelled(label, one.host) == labelled(label, two.host) == []
    assert remains(tmp_path / "state") == []
