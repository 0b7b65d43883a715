"""A cluster of containers, from up to down."""

import pytest

from tests.support.docker import docker_objects
from toolkit.cluster.images import node
from toolkit.cluster.own import up

pytestmark = pytest.mark.needs("docker", "netns")


@pytest.fixture(autouse=True)
def image():
    node.build(announce=lambda _: None)


@pytest.mark.parametrize("backend", ["docker", pytest.param("swarm", marks=pytest.mark.needs("swarm"))])
def test_peers_in_containers_live_through_faults(tmp_path, monkeypatch, backend):
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path))
    with up("two-peers", backend=backend) as cluster:
        lease = cluster.lease
        assert {node.state for node in cluster.nodes.values()} == {"up"}
        assert cluster.node("a").pid > 0
        cluster.fault("partition a b")
        cluster.fault("heal")
        cluster.fault("freeze b")
        cluster.fault("thaw b")
        cluster.fault("kill b")
        assert cluster.node("b").state == "down"
        cluster.fault("restart b --new-nonce")
        assert cluster.node("b").state == "up"
        assert [result for result in cluster.check() if result.violations] == []
        assert len(docker_objects(lease)) == 3
    assert docker_objects(lease) == []
    assert not lease.directory.exists()
