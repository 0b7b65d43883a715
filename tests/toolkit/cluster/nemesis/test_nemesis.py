"""Timelines of faults in running clusters: reactions of nodes, records, and violations found."""

import secrets
import sys
import time
from itertools import permutations
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.clusters import processes_of, state
from tests.support.scene import RecordedCluster
from toolkit.checks.history import SCENARIO
from toolkit.checks.live import Sighting
from toolkit.cluster import up
from toolkit.cluster.backends.base import Host
from toolkit.cluster.nemesis import Crowd, Nemesis, Timeline, TimelineStep, draw, torment
from toolkit.cluster.spec import ClusterSpec
from toolkit.cluster.spec.model import Chaos
from toolkit.faults.language import parse
from toolkit.machine.leaks import leftovers

__all__ = ["state"]

NETWORK_FAULTS = ("partition", "isolate", "flap", "link", "refuse", "black-hole", "reset", "finish")


def spec(names: str = "ab", **changes: Any) -> ClusterSpec:
    """Peers that talk to each other all the time."""
    talk = [{"from": a, "to": b, "every_ms": 20} for a, b in permutations(names, 2)]
    described = {name: {"entity": f"osd.{number}"} for number, name in enumerate(names)}
    return ClusterSpec.model_validate({"name": "hurt", "nodes": described, "traffic": talk, **changes})


def timeline(*steps: tuple[float, str]) -> Timeline:
    return Timeline.of(TimelineStep(at_s, parse(text)) for at_s, text in steps)


@pytest.mark.parametrize(("nodes", "seed"), [("ab", 1), ("ab", 2), ("abc", 3)])
@pytest.mark.usefixtures("state")
def test_invariants_hold_in_chaos(nodes: str, seed: int) -> None:
    with up(spec(nodes)) as cluster:
        chaos = Chaos(seed=seed, every_s=0.4, lasts_s=0.6, for_s=5)
        drawn = draw(chaos, Crowd.of(cluster.scene))
        verdict = torment(cluster, drawn, seed=seed)
        assert verdict.passed, str(verdict)
        assert [done.step for done in verdict.done] == list(drawn)
        steps = [record for record in cluster.history.so_far().of("step") if record.node == SCENARIO]
        carried_out = [f"{step['verb']} {step['args']}" for step in steps if step["verb"] != "not done"]
        assert carried_out[: len(drawn)] == [str(one.fault) for one in drawn], str(verdict)
        assert cluster.scene.in_force == ()
        assert all(node.ready() for node in cluster.nodes.values())
    assert leftovers(cluster.lease, network=False) == []
    assert processes_of(str(cluster.lease.label)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"speaks": {"protocol": "v1"}},
        {"speaks": {"mode": "secure"}},
        {
            "nodes": {
                "a": {"entity": "client.1", "policy": "lossless_client", "listens": False},
                "b": {"entity": "mds.1", "policy": "stateful_server"},
            },
            "traffic": [{"from": "a", "to": "b", "every_ms": 10}],
        },
    ],
    ids=["v1", "secure", "client and server"],
)
@pytest.mark.usefixtures("state")
def test_every_protocol_and_mode_survives_a_timeline(changes: dict[str, Any]) -> None:
    script = timeline(
        (0.1, "partition a b"),
        (0.4, "undo partition a b"),
        (0.5, "freeze b"),
        (0.7, "thaw b"),
        (0.8, "reset a b"),
        (0.9, "descriptors b 0"),
        (1.0, "reset a b"),
        (1.2, "undo descriptors b 0"),
        (1.3, "restart b"),
        (1.4, "finish a b"),
        (1.5, "restart a --new-nonce"),
    )
    with up(spec(**changes)) as cluster:
        verdict = torment(cluster, script)
        assert verdict.passed, str(verdict)
        assert not [done for done in verdict.done if done.error]


@pytest.mark.usefixtures("state")
def test_a_broken_node_is_caught_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = (sys.executable, "-m", "tests.support.broken_node", "nothing is replayed")
    monkeypatch.setattr(Host, "messenger", bug)
    on_their_way = (0.05, "link a b delay-ms=20 --both-ways")  # so that a reset always meets messages
    script = timeline(on_their_way, (0.6, "reset a b"), (0.7, "heal"), (2.0, "reset a b"))
    caught: list[Sighting] = []
    with up(spec(traffic=[{"from": "a", "to": "b", "every_ms": 2}])) as cluster:
        nemesis = Nemesis(cluster.scene, script, found=caught.append).start()
        deadline_s = time.monotonic() + 40
        while not caught and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert {one.id for one in caught} & {"INV-1", "INV-8"}
        nemesis.close()
        assert nemesis.sightings[: len(caught)] == tuple(caught)


@pytest.mark.usefixtures("state")
def test_a_spec_has_its_nemesis() -> None:
    with up(
        spec(timeline=[{"at_s": 0.1, "fault": "partition a b"}], chaos={"for_s": 0.5, "every_s": 0.2})
    ) as cluster:
        nemesis = cluster.nemesis
        assert nemesis is not None
        assert nemesis.wait(20)
        assert nemesis.done[0].step.fault == parse("partition a b")
        assert nemesis.status()["seed"] == 1
        assert cluster.scene.in_force == ()


def test_nemesis_records_a_failed_step_and_continues() -> None:
    cluster = RecordedCluster()
    script = timeline((0.0, "kill b"), (0.01, "kill b"), (0.02, "clock d +1"), (0.03, "reset a b"))
    nemesis = Nemesis(cluster.scene, script, heals=False, live=False).start()
    assert nemesis.wait(20)
    assert [done.error for done in nemesis.done][:2] == ["", "kill b: it is in force already"]
    assert "real daemon" in nemesis.done[2].error
    assert nemesis.done[3].outcome == "2 connections"
    noted = [step["args"] for step in cluster.recorded("step") if step["verb"] == "not done"]
    assert noted[0] == "kill b: kill b: it is in force already"
    assert [str(fault) for fault in cluster.scene.in_force] == ["kill b"]


@pytest.mark.parametrize("start", ["undo kill b", "restart b", "start b"])
def test_a_node_that_failed_to_start_is_started_after_later_steps(start: str) -> None:
    cluster = RecordedCluster()
    cluster.nodes["b"].failing_starts = 2
    steps = timeline((0, "kill b"), (0, start), (0, "freeze a"), (0, "thaw a"), (0, "kill a"))
    nemesis = Nemesis(cluster.scene, steps, heals=False, live=False).start()
    assert nemesis.wait(10)
    assert cluster.nodes["b"].alive
    noted = [f"{step['verb']} {step['args']}" for step in cluster.recorded("step")]
    assert noted == [
        *("kill b", start, f"not done {start}: b did not come up"),
        *("freeze a", "start b", "thaw a", "start b", "kill a"),
    ]
    assert [str(fault) for fault in cluster.scene.in_force] == ["kill a"]


def test_verdict_fails_if_the_cluster_does_not_come_to_rest() -> None:
    cluster = RecordedCluster()
    cluster.answers["snapshot"] = {"queued": 3, "sent": 0, "dispatch_bytes": 0, "unsettled": 1}
    verdict = Nemesis(cluster.scene, Timeline(), live=False).start().finish(timeout_s=0.1)
    assert not verdict.passed
    assert verdict.failures["LIVE"][0] == "a: queued 3, unsettled 1"
    assert "LIVE: b: queued 3, unsettled 1" in str(verdict)


def test_closing_ends_it_early() -> None:
    cluster = RecordedCluster()
    nemesis = Nemesis(cluster.scene, timeline((0.0, "kill b"), (60.0, "kill c")), live=False).start()
    deadline_s = time.monotonic() + 20
    while not nemesis.done and time.monotonic() < deadline_s:
        time.sleep(0.001)
    nemesis.close()
    assert cluster.calls == [("kill", "b")]


def test_nemesis_refuses_a_spec_with_an_unsupported_fault() -> None:
    cluster = RecordedCluster()
    cluster.spec = spec(chaos={"faults": ["black-hole"]})  # type: ignore[attr-defined]
    cluster.network.lacks = {"black_hole": "loopback has no packets"}
    with pytest.raises(LocalError, match="chaos: black-hole: loopback has no packets"):
        Nemesis.of(cluster)  # type: ignore[arg-type]


@pytest.mark.usefixtures("state")
def test_rules_of_a_proxy_are_faults() -> None:
    nodes = {"a": {"entity": "client.1", "policy": "lossless_client", "listens": False}}
    nodes["b"] = {"entity": "mds.1", "policy": "stateful_server"}
    talk = [{"from": "a", "to": "b", "every_ms": 10}]
    middle = [{"from": "a", "to": "b"}]
    with up(spec(nodes=nodes, traffic=talk, proxies=middle, speaks={"mode": "secure"})) as cluster:
        script = timeline(
            (0.1, "reset a b"),
            (0.2, "proxy a b 'MESSAGE #5: cut before'"),
            (0.3, "proxy a b 'MESSAGE #20: corrupt byte 40'"),
            (0.4, "proxy a b 'ACK #9: hold x'"),
            (1.2, "release a b x"),
            (1.3, "undo proxy a b 'MESSAGE #20: corrupt byte 40'"),
        )
        verdict = torment(cluster, script)
        assert verdict.passed, str(verdict)
        assert not [done for done in verdict.done if done.error], str(verdict)
        kinds = [record.kind for record in cluster.history.so_far().records if record.node == "network"]
        assert "mangle" in kinds
        assert kinds.count("cut") == 2


@pytest.mark.needs("netns", "nft")
def test_chaos_among_namespaces() -> None:
    """Packets are lost there, segments forged; names in the kernel need the machine's own state directory."""
    name = f"t{secrets.token_hex(4)}"
    with up(spec("abc"), backend="netns", name=name) as cluster:
        chaos = Chaos(seed=5, every_s=0.4, lasts_s=0.6, for_s=4, faults=NETWORK_FAULTS)
        verdict = torment(cluster, draw(chaos, Crowd.of(cluster.scene)), seed=5)
        assert verdict.passed, str(verdict)
        assert not [done for done in verdict.done if done.error], str(verdict)
    assert leftovers(cluster.lease) == []
