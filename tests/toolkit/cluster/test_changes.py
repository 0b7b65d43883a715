"""Clusters that change while they run: nodes, links, proxies and captures come and go."""

from collections.abc import Iterator

import pytest

from messenger.errors import LocalError
from tests.support.clusters import answer_of, done, msgrlab, peers, state
from tests.support.waiting import eventually
from toolkit.cluster import up
from toolkit.cluster.backends.process import ProcessBackend
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.nodes import MessengerNode
from toolkit.errors import Unsupported
from toolkit.machine.leaks import leftovers

__all__ = ["state"]

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture(params=["process", pytest.param("netns", marks=pytest.mark.needs("netns", "nft"))])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with up(peers(), backend=request.param) as cluster:
        yield cluster
    assert leftovers(cluster.lease, network=False) == []


def arrived(cluster: Cluster, node: str) -> int:
    return sum(record.node == node for record in cluster.history.so_far().of("deliver"))


def failed(cluster: Cluster) -> list[str]:
    return [each.id for each in cluster.check() if not each.ok]


def messenger(cluster: Cluster, name: str) -> MessengerNode:
    node = cluster.node(name)
    assert isinstance(node, MessengerNode)
    return node


def test_added_node_exchanges_messages_with_all_others(cluster: Cluster) -> None:
    cluster.add_node("c", entity="osd.3", options={"ms_max_backoff": 2})
    cluster.nodes["c"].command("send", peer="a", count=3)
    cluster.nodes["b"].command("send", peer="c", count=2)
    eventually(lambda: (arrived(cluster, "a"), arrived(cluster, "c")) == (3, 2))
    status = cluster.status()
    assert (status["state"], list(status["nodes"])) == ("up", ["a", "b", "c"])
    assert cluster.spec.messengers()["c"].options == {"ms_max_backoff": 2}
    assert "node add c" in [event["what"] for event in status["events"]]
    cluster.fault("partition b c")  # faults know it
    cluster.fault("mend")
    messenger(cluster, "a").restart()  # and the others know it in their next life
    messenger(cluster, "a").command("send", peer="c")
    eventually(lambda: arrived(cluster, "c") == 3)
    assert failed(cluster) == []


def test_removed_node_can_be_added_again(cluster: Cluster) -> None:
    first = cluster.add_node("c", entity="osd.3").address
    a = cluster.nodes["a"]
    a.command("traffic", peer="c", every_ms=5)
    eventually(lambda: arrived(cluster, "c") > 3)
    cluster.fault("partition b c")
    cluster.add_link("a", "c", delay_ms=5)
    assert cluster.remove_node("c") == []
    assert (list(cluster.nodes), cluster.spec.links, cluster.scene_faults()) == (["a", "b"], (), ())
    assert a.status()["sessions"] == []
    with pytest.raises(LocalError, match="no peer 'c'"):
        a.command("send", peer="c")
    before = arrived(cluster, "c")
    again = cluster.add_node("c", entity="osd.3")
    assert again.address != first
    assert again.spec.incarnation == 2
    a.command("send", peer="c", count=2)
    eventually(lambda: arrived(cluster, "c") == before + 2)
    assert failed(cluster) == []


def test_links_come_and_go_and_healing_leaves_them(cluster: Cluster) -> None:
    cluster.add_link("a", "b", delay_ms=5, both_ways=True)
    assert cluster.network.link("b", "a").delay_ms == 5
    cluster.fault("link a b delay-ms=30")
    cluster.remove_link("a", "b")
    assert cluster.network.link("a", "b").delay_ms == 30
    cluster.add_link("a", "b", delay_ms=7)
    cluster.fault("mend")
    assert [cluster.network.link(*way).delay_ms for way in ("ab", "ba")] == [7, 0]
    with pytest.raises(LocalError, match="from a to b is given twice"):
        cluster.add_link("a", "b", delay_ms=8)
    cluster.remove_link("a", "b")
    assert (cluster.network.link("a", "b").is_clear, cluster.spec.links) == (True, ())
    with pytest.raises(LocalError, match="no link from a to b was given"):
        cluster.remove_link("a", "b")


def test_a_proxy_comes_and_goes(cluster: Cluster) -> None:
    a, b = cluster.nodes["a"], cluster.nodes["b"]
    a.command("send", peer="b")
    eventually(lambda: arrived(cluster, "b") == 1)
    cluster.add_proxy("a", "b", ["-> MESSAGE #2: cut"])
    a.command("mark_down", peer="b")  # the next dial goes through it
    a.command("send", peer="b", count=3)
    eventually(lambda: arrived(cluster, "b") == 4)
    assert [record["detail"] for record in cluster.history.so_far().of("cut")] != []
    cluster.remove_proxy("a", "b")
    assert (cluster.proxies, cluster.scene_faults(), cluster.spec.proxies) == ({}, (), ())
    with pytest.raises(LocalError, match="no proxy from a to b; there are none"):
        cluster.remove_proxy("a", "b")
    a.command("send", peer="b")
    eventually(lambda: arrived(cluster, "b") == 5)
    assert b.alive
    assert failed(cluster) == []


@pytest.mark.needs("capture")
def test_a_capture_begins_and_ends(cluster: Cluster) -> None:
    path = cluster.start_capture("a").path
    assert cluster.status()["captures"] == {"a": str(path)}
    with pytest.raises(LocalError, match=r"a\.pcapng is another capture already"):
        cluster.start_capture("a")
    cluster.nodes["a"].command("send", peer="b")
    eventually(lambda: arrived(cluster, "b") == 1)
    assert cluster.stop_capture("a").packets > 0
    assert cluster.status()["captures"] == {}
    with pytest.raises(LocalError, match="no capture of a; there are none"):
        cluster.stop_capture("a")


def test_refused_change_leaves_the_cluster_unchanged(cluster: Cluster) -> None:
    for values, why in (
        ({}, "nodes.c.entity: it is missing"),
        ({"entity": "osd.1"}, "nodes.c.entity: a is osd.1 already"),
        ({"entity": "osd.3", "options": {"ms_nothing": 1}}, "nodes.c.options.ms_nothing"),
    ):
        with pytest.raises(LocalError, match=why):
            cluster.add_node("c", **values)
    with pytest.raises(Unsupported, match="one messenger is added at a time"):
        cluster.add_node("c", entity="osd.3", count=2)
    cluster.fault("freeze b")
    with pytest.raises(LocalError, match="node b is frozen: msgrlab fault thaw b"):
        cluster.add_node("c", entity="osd.3")
    with pytest.raises(LocalError, match="node b is frozen"):
        cluster.remove_node("a")
    cluster.fault("thaw b")
    cluster.remove_node("b")
    with pytest.raises(LocalError, match="at least one node"):
        cluster.remove_node("a")
    assert (list(cluster.nodes), list(cluster.backend.hosts)) == (["a"], ["a"])
    assert cluster.status()["state"] == "up"


def test_add_node_removes_a_node_that_fails_to_start(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(type(cluster.backend.hosts["a"]), "messenger", ("false",))
        with pytest.raises(LocalError, match="node c"):
            cluster.add_node("c", entity="osd.3")
    assert (list(cluster.nodes), list(cluster.backend.hosts)) == (["a", "b"], ["a", "b"])
    assert cluster.add_node("c", entity="osd.3").state == "up"


def test_nodes_cannot_change_if_the_backend_cannot_remove_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with up(peers()) as cluster:
        monkeypatch.setattr(ProcessBackend, "removes_hosts", False)
        for change in (lambda: cluster.add_node("c", entity="osd.3"), lambda: cluster.remove_node("a")):
            with pytest.raises(Unsupported, match="process cannot change the nodes of a running cluster"):
                change()


def test_the_commands() -> None:
    done("up", "two-peers", "--name", "grown")
    try:
        assert done("node", "add", "c", "entity=osd.3", "options.ms_max_backoff=2").startswith("c  messenger  v2:")
        done("link", "add", "a", "c", "delay_ms=1", "both_ways=true")
        done("link", "proxy", "a", "c", "--rule", "-> MESSAGE #2: cut")
        status = answer_of("status", "grown", "--json")["clusters"][0]
        assert (list(status["nodes"]), status["proxies"], len(status["links"])) == (["a", "b", "c"], ["a c"], 2)
        done("link", "proxy", "a", "c", "--remove")
        done("link", "remove", "a", "c")
        assert answer_of("node", "remove", "c", "--json") == {"node": "c", "problems": []}
        wrong = msgrlab("node", "remove", "c")
        assert (wrong.returncode, wrong.stderr) == (2, "msgrlab: no node 'c' in cluster 'grown'; there are a, b\n")
        assert msgrlab("link", "add", "a", "b", "loss={percent: 1}").returncode == 3
        assert msgrlab("link", "add", "a", "b", "delay").stderr.startswith(
            "msgrlab: link a b: delay: give KEY=VALUE"
        )
    finally:
        done("down", "grown")
