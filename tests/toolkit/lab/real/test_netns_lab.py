"""Scenarios on hosts in namespaces: faults of the network are done to packets, those of frames by proxies."""

from collections.abc import Iterator

import pytest

from tests.support.labs import clean_peers
from toolkit.errors import ScenarioFailed, Unsupported
from toolkit.faults.tap import Breakpoint
from toolkit.lab.real.real_lab import RealLab

pytestmark = [pytest.mark.needs("netns"), pytest.mark.needs("nft")]


@pytest.fixture(params=["v2-crc", "v1"])
def lab(request: pytest.FixtureRequest) -> Iterator[RealLab]:
    with clean_peers(RealLab("netns", request.param, 1, processes=False)) as lab:
        yield lab


def test_nodes_have_ascending_addresses_in_the_order_of_description(lab: RealLab) -> None:
    assert "10.77.0.1:6800" in lab.address("a")
    assert "10.77.0.2:6800" in lab.address("b")


def test_partition_blocks_messages_until_it_heals(lab: RealLab) -> None:
    lab.partition("a", "b", one_way=True)
    lab.send("a", "b", count=3)
    with pytest.raises(ScenarioFailed, match=r"8 messages from a delivered at b; 5 were"):
        lab.expect_delivered("a", "b", 8, within_s=0.1)
    lab.heal()
    lab.expect_delivered("a", "b", 8)


def test_refused_dials_are_tried_again(lab: RealLab) -> None:
    lab.refuse("a", "b")
    lab.cut("a", "b")
    lab.send("a", "b", count=1)
    lab.expect_event("a", "b", "refused")
    lab.heal()
    lab.expect_delivered("a", "b", 6)


def test_impairments_of_a_link_add_up_until_it_heals(lab: RealLab) -> None:
    lab.delay("a", "b", 0.02, 0.02)
    lab.lose("a", "b", 0.01)
    lab.slow("b", "a", 1_000_000)
    lab.exchange(count=3)
    network = lab._place.network
    found = network.link("a", "b")
    assert (found.delay_ms, found.jitter_ms, found.loss.percent) == (30, 10, 1)
    assert network.link("b", "a").rate_bits_per_s == 8_000_000
    lab.heal()
    assert network.link("a", "b").is_clear


def test_frames_are_cut_by_a_proxy_on_the_way(lab: RealLab) -> None:
    stop = lab.breakpoint("a:MESSAGE:1", byte=10)
    assert isinstance(stop, Breakpoint)
    lab.cut_at("a", "b", stop)
    lab.send("a", "b", count=1)
    lab.expect_cut(stop)
    lab.expect_delivered("a", "b", 6)


def test_delayed_dial_is_unsupported_outside_simulation(lab: RealLab) -> None:
    with pytest.raises(Unsupported, match="delay_dial a b 1: only in simulation"):
        lab.delay_dial("a", "b", 1.0)


def test_processes_run_on_their_hosts_and_can_be_frozen() -> None:
    lab = RealLab("netns", "v2-crc", 1)
    try:
        lab.two()
        lab.connect("a", "b")
        lab.freeze("b")
        lab.send("a", "b", count=3)
        with pytest.raises(ScenarioFailed, match="0 were"):
            lab.expect_delivered("a", "b", 3, within_s=0.2)
        lab.thaw("b")
        lab.expect_delivered("a", "b", 3)
        lab.kill("b")
        lab.revive("b")
        lab.send("a", "b", count=1)
        lab.expect_event("a", "b", "connect", 2)
    finally:
        lab.close()
