"""Verbs about shutdown, dispatchers with effects, and observable state of a node."""

from typing import Any

import pytest

from messenger.errors import LocalError
from toolkit.errors import ScenarioFailed
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import Way, ways
from toolkit.node import NodeSpec

WAYS = ways("v2-crc", "v2-crc-w2", "v1")


def connected(way: Way | str = "v2-crc", **options: object) -> SimLab:
    lab = SimLab(way, 1)
    lab.two("lossless_peer", **options)  # type: ignore[arg-type]
    lab.connect("a", "b")
    lab.exchange(count=2)
    return lab


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("graceful", [False, True])
def test_stopped_node_holds_no_resources_and_refuses_dials(way: Way, *, graceful: bool) -> None:
    lab = connected(way)
    lab.stop("b", graceful=graceful)
    lab.expect_stopped("b", within_s=1.0)
    assert lab.records("b", "process", action="stop")
    lab.send("a", "b")
    lab.wait(1.0)
    assert lab.delivered("a", "b") == 2
    assert lab.holdings("b")["links"] == 0
    with pytest.raises(LocalError, match="this messenger has been shut down"):
        lab.dial("b", "a", anonymous=True)


def test_a_graceful_stop_waits_for_what_is_queued() -> None:
    lab = connected()
    lab.partition("a", "b")
    lab.send("a", "b", count=3)
    lab.stop("a", graceful=True)
    with pytest.raises(ScenarioFailed, match="messengers shut down: a"):
        lab.expect_stopped("a", within_s=1.0)
    lab.heal()
    lab.expect_stopped("a", within_s=1.0)
    assert lab.delivered("a", "b") == 5


def test_a_command_is_carried_out_inside_dispatch() -> None:
    lab = connected()
    lab.on_delivery("b", "send", nth=2, every=3, peer="a", count=1, size_bytes=7)
    lab.send("a", "b", count=9)
    lab.expect_delivered("b", "a", 2 + 3)
    with pytest.raises(LocalError, match="unknown command 'dance'"):
        lab.on_delivery("b", "dance")


def test_alias_gives_a_second_session_with_the_peer() -> None:
    lab = connected()
    lab.dial("a", "b", anonymous=True, alias="other")
    lab.send("a", "other")
    lab.expect_delivered("a", "b", 3)
    assert lab.session("a", "other")["id"] != lab.session("a", "b")["id"]
    assert lab.session("a", "nobody") == {}


def test_an_ended_connection_can_be_kept_to_send_on() -> None:
    lab = connected()
    lab.mark_down("a", "b", keep=True)
    lab.send("a", "b", count=3)
    lab.wait(1.0)
    assert lab.dials("a") == 1
    assert len(lab.records("a", "send")) == 2  # what is dropped at once was never sent
    lab.mark_down("a", "b")
    lab.send("a", "b", count=1)
    lab.expect_delivered("a", "b", 3)


def test_throttles_of_a_policy_are_part_of_the_spec() -> None:
    lab = SimLab("v2-crc", 1)
    lab.node("a", "osd.1", "lossless_peer", throttle={"messages": 3, "size_bytes": 4000})
    lab.start()
    assert lab.holdings("a")["throttled"] == {"dispatch_bytes": 0, "dispatch_messages": 0}
    lab.node("b", "osd.2", "lossless_peer", throttle={"cows": 3})
    with pytest.raises(LocalError, match="throttles"):
        lab.start("b")


def test_outputs_of_shards_stay_in_order_after_unblock() -> None:
    """What comes of one output waits behind the others."""
    lab = connected("v1-w2")
    lab.arm("b", "MSG READ", "BLOCK")
    lab.send("a", "b", count=5, size_bytes=1000)
    lab.expect_hit("b", "MSG READ")
    lab.wait(0.05)
    lab.unblock("b", "MSG READ")
    lab.expect_delivered("a", "b", 7)
    offsets = [record["offset"] for record in lab.frames("b", "MSG", "rx")]
    assert offsets == sorted(offsets)


def test_a_spec_with_throttles_survives_json() -> None:
    lab = connected()
    spec = lab._specs["a"]
    spec.throttle = {"messages": 2}
    assert NodeSpec.from_json(spec.as_json()) == spec


def test_a_verb_of_a_killed_node_is_one_clear_error() -> None:
    lab = connected()
    lab.kill("a")
    for verb in lab.kill, lab.freeze, lambda node: lab.send(node, "b"):
        with pytest.raises(LocalError, match="node 'a' does not run; b does"):
            verb("a")


@pytest.mark.parametrize(("count", "complaint"), [("x", "count = 'x': give a whole number"), (-1, "give 0 to")])
def test_a_verb_with_a_wrong_value_is_one_clear_error(count: Any, complaint: str) -> None:
    with pytest.raises(LocalError, match=complaint):
        connected().send("a", "b", count=count)
