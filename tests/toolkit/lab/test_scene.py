"""Faults by the words of docs/faults.md in a lab: the same ones in simulation and on real sockets."""

import threading
from collections.abc import Iterator

import pytest

from messenger.errors import LocalError
from tests.support.labs import clean_peers
from toolkit.errors import ScenarioFailed, Unsupported
from toolkit.faults.language.network import Partition
from toolkit.lab.lab import Lab
from toolkit.lab.ways import Way
from toolkit.scenarios.runner import open_lab


@pytest.fixture(
    params=["sim", "local", pytest.param("netns", marks=[pytest.mark.needs("netns"), pytest.mark.needs("nft")])]
)
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with clean_peers(open_lab(request.param, Way(), 1, processes=True)) as lab:
        yield lab


def test_a_partition_lasts_until_it_is_undone(lab: Lab) -> None:
    lab.fault("partition a b --one-way")
    lab.send("a", "b", count=3)
    with pytest.raises(ScenarioFailed, match=r"8 messages from a delivered at b; 5 were"):
        lab.expect_delivered("a", "b", 8, within_s=0.1)
    with pytest.raises(LocalError, match="it is in force already"):
        lab.fault(Partition("a", "b", one_way=True))
    lab.fault("undo partition a b --one-way")
    lab.expect_delivered("a", "b", 8)


def test_heal_ends_faults_given_as_text(lab: Lab) -> None:
    lab.fault("partition a b")
    lab.fault("link a b delay-ms=20")
    lab.heal()
    assert lab.scene.in_force == ()
    assert lab.network.link("a", "b").is_clear
    lab.exchange(count=1)


def test_refused_dials_are_tried_again(lab: Lab) -> None:
    lab.fault("refuse a b")
    lab.fault("reset a b")
    lab.send("a", "b", count=1)
    lab.expect_event("a", "b", "refused")
    lab.fault("heal")
    lab.expect_delivered("a", "b", 6)


def test_processes_are_frozen_killed_and_started(lab: Lab) -> None:
    lab.fault("freeze b")
    lab.send("a", "b", count=2)
    lab.fault("thaw b")
    lab.expect_delivered("a", "b", 7)
    lab.fault("kill b")
    with pytest.raises(LocalError, match="b does not run: start b"):
        lab.fault("freeze b")
    lab.fault("start b")
    lab.send("a", "b", count=1)
    lab.expect_event("a", "b", "connect", 2)


def test_peers_reconnect_to_a_node_with_a_new_nonce(lab: Lab) -> None:
    before = lab.address("b")
    lab.fault("restart b --new-nonce")
    assert lab.address("b") != before
    lab.send("a", "b", count=1)
    lab.expect_delivered("a", "b", 6)


def test_a_rule_for_the_proxy_is_undone(lab: Lab) -> None:
    lab.fault("proxy a b 'MESSAGE #1: hold held'")
    lab.send("a", "b", count=2)
    lab.wait(0.2)
    assert lab.delivered("a", "b") == 5
    lab.fault("release a b held")
    lab.expect_delivered("a", "b", 7)


def test_faults_given_as_text_are_steps_of_the_history(lab: Lab) -> None:
    lab.fault("mark-down a b")
    lab.send("a", "b", count=1)
    lab.expect_delivered("a", "b", 6)
    steps = [record for record in lab.history.of("step") if record["verb"] == "mark-down"]
    assert [record["args"] for record in steps] == ["a b"]


def test_virtual_time_has_no_faults_that_go_on_by_themselves() -> None:
    lab = open_lab("sim", Way(), 1)
    lab.two()
    with pytest.raises(Unsupported, match="virtual time does not pass by itself"):
        lab.fault("flap a b")
    with pytest.raises(Unsupported, match="black-hole a b: a simulated network has no packets"):
        lab.fault("black-hole a b 600")


def test_a_fault_that_goes_on_ends_with_its_lab() -> None:
    lab = open_lab("local", Way(), 1)
    lab.two()
    lab.fault("flap a b --period-s 0.02")
    lab.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("flap")]
