"""Clusters in this process: up, hurt, judged, down."""

import json
import signal
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import peers, processes_of, remains, state
from tests.support.waiting import eventually
from toolkit.checks.history import History
from toolkit.checks.live import check_so_far
from toolkit.cluster import up
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.spec import ClusterSpec
from toolkit.errors import Unsupported
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import leases

__all__ = ["state"]


def delivered(cluster: Cluster, node: str) -> int:
    return sum(record.node == node for record in cluster.history.so_far().of("deliver"))


@pytest.mark.usefixtures("state")
def test_up_talking_and_down_again() -> None:
    stages: list[tuple[str, str]] = []
    with up(peers(), progress=lambda node, stage: stages.append((node, stage))) as cluster:
        assert {(name, stage) for name in "ab" for stage in ("host", "started", "ready")} == set(stages)
        cluster.nodes["a"].command("send", peer="b", count=3)
        eventually(lambda: delivered(cluster, "b") == 3)
        assert [each.id for each in cluster.check() if not each.ok] == []
        cluster.history.flush()
        assert len(History.load(cluster.directory / "history.ndjson")) >= 6
        status = cluster.status()
        assert status["nodes"]["b"]["sessions"][0]["in_seq"] == 3
        assert json.loads(json.dumps(status)) == status
        assert "READY" in cluster._repr_html_()
        assert len(processes_of(str(cluster.lease.label))) == 2
    assert leftovers(cluster.lease, network=False) == []


@pytest.mark.usefixtures("state")
def test_full_history_reports_its_limit_and_time() -> None:
    with up(peers(), settings=["records=20"]) as cluster:
        assert cluster.status()["full_s"] is None
        cluster.nodes["a"].command("send", peer="b", count=20)
        eventually(lambda: cluster.history.full_s is not None)
        full_s = cluster.history.full_s
        eventually(lambda: [one["in_seq"] for one in cluster.nodes["b"].status()["sessions"]] == [20])
        status = cluster.status()
        assert (status["records"], status["full_s"]) == (20, full_s)
        assert "full with 20 records" in cluster._repr_html_()
        cluster.history.flush()
        assert len(History.load(cluster.directory / "history.ndjson")) == 20
        # what has not arrived by the last of them is not held against anybody
        ends = {name: node.command("snapshot") | node.command("resources") for name, node in cluster.nodes.items()}
        assert [each.id for each in check_so_far(cluster.history, ends) if not each.ok] == []


@pytest.mark.usefixtures("state")
def test_without_a_history_nothing_is_judged() -> None:
    with up(peers(), settings=["records=0"]) as cluster:
        cluster.nodes["a"].command("send", peer="b")
        eventually(lambda: [one["in_seq"] for one in cluster.nodes["b"].status()["sessions"]] == [1])
        status = cluster.status()
        assert (status["records"], status["checks"]["judged"]) == (0, False)
        assert "there are no records to judge" in cluster._repr_html_()


@pytest.mark.parametrize("settings", [["speaks.protocol=v1"], ["speaks.mode=secure"], ["speaks.protocol=v1+v2"]])
@pytest.mark.usefixtures("state")
def test_node_uses_the_protocol_of_the_spec(settings: list[str]) -> None:
    with up(peers(), settings=settings) as cluster:
        cluster.nodes["a"].command("send", peer="b")
        eventually(lambda: delivered(cluster, "b") == 1)
        both = [word for word in ("v1:", "v2:") if word in cluster.nodes["a"].address]
        assert both == {"v1": ["v1:"], "v2": ["v2:"], "v1+v2": ["v1:", "v2:"]}[cluster.spec.speaks.protocol]


def tags_of(cluster: Cluster) -> set[str]:
    return {record["tag"] for record in cluster.history.so_far().of("frame")}


@pytest.mark.usefixtures("state")
def test_v1_node_dials_the_v1_address_of_a_dual_node() -> None:
    old = {"entity": "client.1", "policy": "lossless_client", "listens": False, "speaks": {"protocol": "v1"}}
    both = {"entity": "mds.0", "policy": "stateful_server", "speaks": {"protocol": "v1+v2"}}
    with up(ClusterSpec.model_validate({"name": "mixed", "nodes": {"old": old, "both": both}})) as cluster:
        for lives in (1, 2):
            cluster.nodes["old"].command("send", peer="both", count=3)
            eventually(lambda lives=lives: delivered(cluster, "both") == 3 * lives)  # type: ignore[misc]
            cluster.nodes["both"].restart(new_nonce=True)
        tags = tags_of(cluster)
    assert "IDENTIFY" in tags
    assert "HELLO" not in tags


@pytest.mark.usefixtures("state")
def test_traffic_of_the_spec_flows_by_itself() -> None:
    beats = [{"from": "a", "to": "b", "every_ms": 5, "count": 4}, {"from": "b", "to": "a", "every_ms": 5}]
    beats.append({"from": "a", "to": "b", "every_ms": 5, "keepalive": True})
    with up(peers(traffic=beats)) as cluster:
        eventually(lambda: delivered(cluster, "b") == 4 and delivered(cluster, "a") > 8)
        eventually(lambda: {"KEEPALIVE2", "KEEPALIVE2_ACK"} <= tags_of(cluster))
        assert delivered(cluster, "b") == 4


@pytest.mark.usefixtures("state")
def test_node_freezes_thaws_dies_and_starts() -> None:
    with up(peers()) as cluster:
        a, b = cluster.nodes["a"], cluster.nodes["b"]
        a.command("send", peer="b")
        eventually(lambda: delivered(cluster, "b") == 1)
        b.freeze(True)
        assert (b.state, cluster.status()["nodes"]["b"]["sessions"]) == ("frozen", [])
        with pytest.raises(LocalError, match="frozen: msgrlab fault thaw b"):
            b.command("snapshot")
        b.freeze(False)
        b.command("snapshot")
        before = b.address
        b.restart()
        assert b.address == before
        a.command("traffic", peer="b", every_ms=5)  # the first one goes down with the session: b knows of none
        eventually(lambda: delivered(cluster, "b") >= 2)
        b.restart(new_nonce=True)
        assert b.address != before
        assert a.spec.peers["b"] == b.address
        b.kill()
        assert (b.state, b.alive, b.pid) == ("down", False, 0)
        with pytest.raises(LocalError, match="down: msgrlab fault restart b"):
            b.command("snapshot")
        b.start()
        b.wait_ready()
        actions = [record["action"] for record in cluster.history.so_far().of("process") if record.node == "b"]
        ends = ["freeze", "thaw", "kill", "start", "kill", "start", "kill", "start"]
        assert actions == ["start", *ends]
        assert [each.id for each in cluster.check() if not each.ok] == []


@pytest.mark.usefixtures("state")
def test_crashed_node_is_reported_and_restarts() -> None:
    with up(peers()) as cluster:
        b = cluster.nodes["b"]
        b.host.run("sh", "-c", f"kill -{signal.SIGSEGV} {b.pid}")
        eventually(lambda: b.state == "dead")
        assert cluster.status()["state"] == "hurt"
        assert [each["action"] for each in cluster.history.so_far().of("process")][-1] == "exit"
        assert any(not each.ok for each in cluster.check())
        b.restart()
        assert b.state == "up"


@pytest.mark.usefixtures("state")
def test_commands_of_nodes_are_checked() -> None:
    with up(peers()) as cluster:
        with pytest.raises(LocalError, match="no verb 'dance'; there are arm, auth"):
            cluster.nodes["a"].command("dance")
        with pytest.raises(LocalError, match="no peer 'z'; there are a, b"):
            cluster.nodes["a"].command("traffic", peer="z", every_ms=1)
        with pytest.raises(LocalError, match="no node 'z' in cluster 'pair'; there are a, b"):
            cluster.node("z")
        cluster.nodes["a"].command("jump_clock", seconds=3600)
        assert [record["step_s"] for record in cluster.history.so_far().of("clock")] == [3600]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("verb", "arguments", "why"),
    [
        ("send", {"peer": "b", "count": 10**15}, "count = 1000000000000000: give 0 to 1000000"),
        ("send", {"peer": "b", "size_bytes": 10**15}, "1000000000000000 bytes in one command: give at most 2 GiB"),
        (
            "send",
            {"peer": "b", "count": 10**5, "front_bytes": 1 << 20},
            "bytes in one command: give at most 2 GiB",
        ),
        ("send", {"peer": "x" * (1 << 20)}, "bytes: give less than 1 MiB of arguments"),
        ("configure", {"options": {"ms_max_backoff": object()}}, "Object of type object is not JSON serializable"),
        ("configure", {"options": 3}, "TypeError"),
    ],
)
def test_node_that_is_asked_for_too_much_answers_and_goes_on(
    verb: str, arguments: dict[str, object], why: str
) -> None:
    with up(peers()) as cluster:
        with pytest.raises(LocalError, match=why):
            cluster.nodes["a"].command(verb, **arguments)
        cluster.nodes["a"].command("send", peer="b", count=3)
        assert cluster.nodes["a"].state == "up"


def test_cluster_that_fails_to_start_leaves_nothing(state: Path) -> None:
    wrong = peers().model_copy(update={"nodes": {**peers().nodes}})
    wrong.nodes["b"] = wrong.nodes["b"].model_copy(update={"policy": "friendly"})
    with pytest.raises(LocalError, match=r"^node b: .*unknown policy 'friendly'"), up(wrong):
        pass
    assert remains(state) == []
    with pytest.raises(LocalError, match="unknown backend 'podman'; known: process, netns, docker"):
        up(peers(), backend="podman").__enter__()
    assert remains(state) == []
    with (
        pytest.raises(Unsupported, match="loss"),
        up(peers(links=[{"from": "a", "to": "b", "loss": {"percent": 1}}])),
    ):
        pass
    assert remains(state) == []


@pytest.mark.usefixtures("state")
def test_cluster_names_are_unique() -> None:
    with up(peers()) as first:
        with pytest.raises(LocalError, match="'pair' exists already: msgrlab down pair"):
            up(peers()).__enter__()
        with up(peers(), name="other") as second:
            assert first.lease.label.number != second.lease.label.number
            assert [lease.label.name for lease in leases()] == ["other", "pair"]


@pytest.mark.usefixtures("state")
def test_links_come_up_impaired_and_heal_to_that() -> None:
    with up(peers(links=[{"from": "a", "to": "b", "delay_ms": 30, "jitter_ms": 5}])) as cluster:
        first = cluster.network.link("a", "b")
        assert (first.delay_ms, first.jitter_ms) == (30, 5)
        assert cluster.network.link("b", "a").delay_ms == 0
        assert cluster.status()["links"] == [{"from": "a", "to": "b", "delay_ms": 30.0, "jitter_ms": 5.0}]
        cluster.fault("link a b rate=1mbit")
        assert cluster.network.link("a", "b").rate_bits_per_s == 1_000_000
        cluster.fault("heal")
        assert cluster.network.link("a", "b") == first


@pytest.mark.usefixtures("state")
def test_proxies_follow_their_scripts() -> None:
    proxies = [{"from": "a", "to": "b", "script": ["-> MESSAGE #2: cut"]}]
    with up(peers(proxies=proxies, timeline=[{"at_s": 0.0, "fault": "freeze b"}])) as cluster:
        eventually(lambda: cluster.nodes["b"].state == "frozen")
        assert [str(fault) for fault in cluster.scene_faults()] == [
            "proxy a b '-> MESSAGE #2: cut before'",
            "freeze b",
        ]
        cluster.fault("thaw b")
        cluster.nodes["a"].command("send", peer="b", count=3)
        eventually(lambda: delivered(cluster, "b") == 3)
        assert len(cluster.history.so_far().of("cut")) == 1
        assert [each.id for each in cluster.check() if not each.ok] == []


@pytest.mark.needs("netns")
@pytest.mark.needs("nft")
@pytest.mark.usefixtures("state")
def test_refuse_applies_to_a_proxied_link() -> None:
    with up(peers(backend="netns", proxies=[{"from": "a", "to": "b"}])) as cluster:
        cluster.fault("refuse a b")
        cluster.nodes["a"].command("send", peer="b", count=1)
        eventually(lambda: any(each["event"] == "refused" for each in cluster.history.so_far().of("event")))
        assert delivered(cluster, "b") == 0
        cluster.fault("heal")
        eventually(lambda: delivered(cluster, "b") == 1)


@pytest.mark.needs("capture")
@pytest.mark.usefixtures("state")
def test_captures_and_proxies_of_the_spec() -> None:
    spec = peers(
        speaks={"mode": "secure"},
        captures=[{"node": "b"}],
        proxies=[{"from": "a", "to": "b"}],
    )
    with up(spec) as cluster:
        assert list(cluster.proxies) == [("a", "b")]
        cluster.nodes["a"].command("send", peer="b", count=2)
        eventually(lambda: delivered(cluster, "b") == 2)
        cluster.captures.close()
        path = cluster.directory / "b.pcapng"
        from toolkit.dissect.capture import Capture

        tags = {frame.tag for frame in Capture(path, ports=None)}
        assert "MESSAGE" in tags
