"""Proxies on ways that real daemons dial: what they see, and what daemons do about what is done to their links."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.toolkit.cluster.ceph.conftest import ceph_spec
from toolkit.cluster.ceph import RadosNode
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.own import up
from toolkit.errors import Unsupported

pytestmark = [
    pytest.mark.needs("ceph-osd", "ceph-mon", "ceph", "netns", "nft"),
    pytest.mark.xdist_group("ceph_proxies"),
]

Clusters = Callable[..., Cluster]
PATIENCE_S = 90.0
OSDS = [("osd0", "osd1"), ("osd1", "osd0")]
WAYS = [{"from": "osd", "to": "osd"}, {"from": "osd", "to": "mon"}, {"from": "app", "to": "osd"}]

AT_FRAMES = [
    "<-> MESSAGE osd_repop #1: cut before",
    "<-> MESSAGE osd_repop #1: cut after",
    "<-> MESSAGE osd_repop_reply #1: cut at 40",
    "<-> MESSAGE osd_repop_reply #1: close before",
    "<-> MESSAGE osd_repop #1: corrupt byte -1",
    "<-> ACK #1: cut before",
]
AS_THEY_RECONNECT = [
    f"{frame} #1: {fate}"
    for frame in (
        "-> BANNER",
        "<- HELLO",
        "-> AUTH_REQUEST",
        "<- AUTH_REPLY_MORE",
        "<- AUTH_DONE",
        "-> AUTH_SIGNATURE",
        "-> SESSION_RECONNECT",
        "<- SESSION_RECONNECT_OK",
    )
    for fate in ("cut at 7", "cut after", "hold it for 200ms")
]
"""The session of two OSDs is lossless: as they try to go on with it, something comes in between once more."""
CUT = "<-> MESSAGE osd_repop #1: cut before"


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    with ExitStack() as running:

        @cache
        def cluster_of(backend: str, release: str = "host") -> Cluster:
            spec = ceph_spec(release, speaks={"mode": "secure"}, proxies=WAYS)
            return running.enter_context(up(spec, backend=backend, name=f"p{uuid.uuid4().hex[:12]}"))

        yield cluster_of


def survive(cluster: Cluster, ways: list[tuple[str, str]], rules: list[str], objects: str) -> None:
    """Write objects while there are rules for some ways: each rule strikes, nothing is lost, all are healthy."""
    app = cluster.nodes["app"]
    assert isinstance(app, RadosNode)
    faults = [f"proxy {a} {b} '{rule}'" for a, b in ways for rule in rules]
    before = strikes(cluster)
    for fault in faults:
        cluster.fault(fault)
    try:
        assert app.command("fill", count=10, prefix=objects, wait_s=PATIENCE_S)["pending"] == []
    finally:
        for fault in faults:
            cluster.fault(f"undo {fault}")
    assert app.command("verify")["wrong"] == []
    app.ceph.wait_healthy()
    assert strikes(cluster) >= before + len(rules)


def strikes(cluster: Cluster) -> int:
    """Return the number of actions of the proxies' rules."""
    return sum(
        record.fields.get("fault") != "blind" for record in cluster.history.so_far().of("cut", "mangle", "path")
    )


@pytest.mark.parametrize("rule", AT_FRAMES)
def test_replicated_writes_survive_each_rule_between_osds(rule: str, clusters: Clusters) -> None:
    survive(clusters("netns"), OSDS, [rule], rule)


@pytest.mark.parametrize("rule", AS_THEY_RECONNECT)
def test_session_of_osds_survives_each_rule_during_reconnect(rule: str, clusters: Clusters) -> None:
    survive(clusters("netns"), OSDS, [CUT, rule], rule)


def test_a_client_of_ours_dials_osds_through_them(clusters: Clusters) -> None:
    rule = "<- MESSAGE osd_op_reply #1: cut before"
    survive(clusters("netns"), [("app", "osd0"), ("app", "osd1")], [rule], "app")


@pytest.mark.needs("docker", "ceph-image-tentacle")
def test_daemons_in_containers(clusters: Clusters) -> None:
    survive(clusters("docker", "tentacle"), OSDS, [CUT, "<- SESSION_RECONNECT_OK #1: cut after"], "containers")


def test_daemons_that_share_an_address_are_refused(clusters: Clusters) -> None:
    with pytest.raises(Unsupported, match="proxy from osd0: its host cannot be entered from here: "):
        clusters("process")
