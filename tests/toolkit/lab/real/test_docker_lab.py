"""Scenarios in containers: what labs share, what they leave, and the error where there can be none."""

import os
from collections.abc import Iterator

import pytest

from tests.support.docker import docker_objects
from tests.support.labs import clean_peers
from toolkit.cluster import containers
from toolkit.cluster.images import node
from toolkit.errors import ScenarioFailed, Unsupported
from toolkit.lab.real.real_lab import RealLab
from toolkit.network.namespace_faults import NamespaceNetwork

_IN_DOCKER = [pytest.mark.needs("docker", "netns", "nft"), pytest.mark.xdist_group("containers")]


@pytest.fixture(scope="module")
def kept() -> Iterator[None]:
    node.build(announce=lambda _: None)
    with containers.kept():
        yield


@pytest.fixture(params=["v2-crc"])
def lab(request: pytest.FixtureRequest, kept: None) -> Iterator[RealLab]:
    with clean_peers(RealLab("docker", request.param)) as lab:
        yield lab


class TestInContainers:
    pytestmark = _IN_DOCKER

    @pytest.mark.parametrize("lab", ["v2-crc", "v1"], indirect=True)
    def test_partition_blocks_messages_until_it_heals(self, lab: RealLab) -> None:
        lab.partition("a", "b", one_way=True)
        lab.send("a", "b", count=3)
        with pytest.raises(ScenarioFailed, match=r"8 messages from a delivered at b; 5 were"):
            lab.expect_delivered("a", "b", 8, within_s=0.1)
        lab.heal()
        lab.expect_delivered("a", "b", 8)

    @pytest.mark.parametrize("lab", ["v2-secure"], indirect=True)
    def test_frames_are_cut_by_a_proxy_on_the_dialler_s_side(self, lab: RealLab) -> None:
        stop = lab.breakpoint("a:MESSAGE:1", byte=10)
        lab.cut_at("a", "b", stop)
        lab.send("a", "b", count=1)
        lab.expect_cut(stop)
        lab.expect_delivered("a", "b", 6)

    def test_programs_can_be_frozen_and_killed(self, lab: RealLab) -> None:
        lab.freeze("b")
        lab.send("a", "b", count=3)
        with pytest.raises(ScenarioFailed, match="5 were"):
            lab.expect_delivered("a", "b", 8, within_s=0.2)
        lab.thaw("b")
        lab.expect_delivered("a", "b", 8)
        lab.kill("b")
        lab.revive("b")
        lab.send("a", "b", count=1)
        lab.expect_event("a", "b", "connect", 2)

    def test_late_node_is_announced_to_the_others(self, lab: RealLab) -> None:
        lab.node("c", "osd.3", "lossless_peer")
        lab.start("c")
        lab.send("a", "c", count=2)
        lab.expect_delivered("a", "c", 2)

    def test_the_next_lab_has_the_same_containers_and_none_of_its_faults(self, kept: None) -> None:
        first = RealLab("docker")
        first.two()
        first.partition("a", "b")
        first.delay("a", "b", 0.05, 0.0)
        address, lease = first.address("b"), first._place.lease
        first.close()
        second = RealLab("docker")
        try:
            second.two()
            assert second._place.lease is lease
            # The same host, and a port that was not used before.
            assert second.address("b").split(":")[1] == address.split(":")[1]
            assert second.address("b") != address
            assert second._place.network.link("a", "b").is_clear
            second.connect("a", "b")
        finally:
            second.close()

    def test_containers_of_a_failed_lab_are_removed(self, kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(NamespaceNetwork, "heal", lambda _: 1 / 0)
        lab = RealLab("docker")
        lease = lab._place.lease
        with pytest.raises(ZeroDivisionError):
            lab.close()
        assert docker_objects(lease) == []
        assert not lease.directory.exists()

    def test_lab_without_kept_containers_removes_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        node.build(announce=lambda _: None)
        monkeypatch.setattr(containers, "_shelf", None)
        lab = RealLab("docker")
        lease = lab._place.lease
        assert len(docker_objects(lease)) == 4
        lab.close()
        assert docker_objects(lease) == []
        assert not lease.directory.exists()


def test_docker_lab_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unsupported, match="needs root: sudo msgrlab run"):
        RealLab("docker")


def test_missing_engine_is_one_error_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Unsupported, match=r"Docker at unix:///nowhere/docker.sock does not run"):
        RealLab("docker")
