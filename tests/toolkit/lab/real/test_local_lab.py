"""The local backend: faults of the way between nodes, on real sockets, with nodes in processes and in a thread."""

import os
from collections.abc import Iterator

import pytest

from tests.support.clusters import parent_of
from tests.support.labs import clean_peers
from toolkit.errors import ScenarioFailed, Unsupported
from toolkit.lab.real.real_lab import RealLab


@pytest.fixture(params=["v2-crc", "v2-secure", "v1"])
def lab(request: pytest.FixtureRequest) -> Iterator[RealLab]:
    with clean_peers(RealLab("local", request.param, 1, processes=False)) as lab:
        yield lab


def test_partition_blocks_messages_until_it_heals(lab: RealLab) -> None:
    lab.partition("a", "b", one_way=True)
    lab.send("a", "b", count=3)
    lab.send("b", "a", count=3)
    lab.expect_delivered("b", "a", 8)
    with pytest.raises(ScenarioFailed, match=r"8 messages from a delivered at b; 5 were"):
        lab.expect_delivered("a", "b", 8, within_s=0.1)
    lab.heal()
    lab.expect_delivered("a", "b", 8)
    lab.partition("a", "b")
    lab.send("b", "a", count=1)
    with pytest.raises(ScenarioFailed):
        lab.expect_delivered("b", "a", 9, within_s=0.1)
    lab.heal()
    lab.expect_delivered("b", "a", 9)


def test_refused_dials_are_tried_again(lab: RealLab) -> None:
    lab.refuse("a", "b")
    lab.cut("a", "b")
    lab.send("a", "b", count=1)
    lab.expect_event("a", "b", "refused")
    assert lab.delivered("a", "b") == 5
    lab.heal()
    lab.expect_delivered("a", "b", 6)


@pytest.mark.parametrize("fault", ["half_open", "half_close"])
def test_half_open_stream_is_replaced(lab: RealLab, fault: str) -> None:
    dials = lab.dials("a") + lab.dials("b")
    getattr(lab, fault)("a", "b")
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 7)
    assert lab.dials("a") + lab.dials("b") > dials


def test_half_open_stream_is_silent_until_a_write(lab: RealLab) -> None:
    lab.expect_acked("a")
    lab.expect_acked("b")
    faults = len(lab.history.of("fault"))
    lab.half_open("a", "b")
    lab.wait(0.1)
    assert [record.node for record in lab.history.of("fault")[faults:]] == ["b"]
    lab.exchange(count=1)


def test_delayed_and_slow_links_lose_no_message(lab: RealLab) -> None:
    lab.delay("a", "b", 0.02, 0.02)
    lab.exchange(count=5)
    lab.slow("b", "a", 100_000)
    lab.send("b", "a", count=2, size_bytes=10_000)
    lab.expect_delivered("b", "a", 12)
    lab.heal()


def test_killed_node_is_silent_and_restarts_empty(lab: RealLab) -> None:
    lab.kill("b")
    lab.revive("b")
    lab.send("a", "b", count=1)
    lab.expect_event("a", "b", "connect", 2)
    assert lab.snapshot("b")["registry"] == 1


def test_only_a_process_can_be_frozen(lab: RealLab) -> None:
    with pytest.raises(Unsupported, match="shares a process"):
        lab.freeze("a")


def test_processes_of_all_labs_are_forks_of_one_program() -> None:
    programs = set()
    for _ in range(2):
        with clean_peers(RealLab("local", "v2-crc", 1, processes=True)) as lab:
            programs |= {parent_of(node.pid) for node in lab._nodes.values()}
    assert len(programs) == 1
    assert os.getpid() not in programs


def test_frozen_process_receives_messages_after_thaw() -> None:
    lab = RealLab("local", "v2-crc", 1)
    try:
        lab.two()
        lab.connect("a", "b")
        lab.freeze("b")
        lab.send("a", "b", count=3)
        with pytest.raises(ScenarioFailed, match="0 were"):
            lab.expect_delivered("a", "b", 3, within_s=0.2)
        lab.thaw("b")
        lab.expect_delivered("a", "b", 3)
    finally:
        lab.close()
