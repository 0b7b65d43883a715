"""Clusters of real processes, with faults."""

from toolkit.cluster import Cluster
from toolkit.pytest_plugin import Clusters


def test_a_reset_loses_nothing(msgrlab_cluster: Clusters) -> None:
    cluster = msgrlab_cluster("two-peers", settings=["speaks.mode=secure"], check=True)
    cluster.fault("reset a b")
    cluster.nodes["a"].command("send", peer="b", count=3)


def test_a_frozen_peer_goes_on(pair: Cluster) -> None:
    pair.fault("freeze b")
    pair.nodes["a"].command("send", peer="b", count=3)
    pair.fault("thaw b")


def test_a_killed_peer_comes_back(pair: Cluster) -> None:
    pair.fault("kill b")
    pair.fault("start b")
    pair.nodes["a"].command("send", peer="b", count=3)
