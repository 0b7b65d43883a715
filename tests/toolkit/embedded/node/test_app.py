"""Embedded daemons as nodes of a cluster."""

from collections.abc import Callable

import pytest

from messenger.errors import LocalError
from toolkit.cluster import Cluster
from toolkit.cluster.spec import parse_spec
from toolkit.embedded.node.spec import EmbeddedSpec

SPEC = """
nodes:
  mon: {ceph: mon}
  osd: {ceph: osd, count: 2}
  app: {rados: client.app}
ceph: {release: embedded}
"""


@pytest.fixture(scope="module")
def spec():
    return parse_spec(SPEC, "mine.yaml")


def test_our_clients_use_them_and_osds_come_back(msgrlab_cluster: Callable[..., Cluster], spec) -> None:
    cluster = msgrlab_cluster(spec, check=True)
    app = cluster.nodes["app"]
    app.command("fill", count=20, size_bytes=1000)
    assert app.command("verify") == {"checked": 20, "wrong": []}
    before = cluster.nodes["osd1"].address
    cluster.nodes["osd1"].restart()
    assert cluster.nodes["osd1"].address != before
    assert app.command("put", oid="after", text="x", wait_s=20)["state"] == "done"
    held = sum(cluster.nodes[name].command("holdings")["links"] for name in ("mon", "osd0", "osd1"))
    assert held > 0


def test_a_monitor_is_not_restarted(msgrlab_cluster: Callable[..., Cluster], spec) -> None:
    cluster = msgrlab_cluster(spec)
    with pytest.raises(LocalError, match="keeps its maps in memory"):
        cluster.nodes["mon"].restart()
    with pytest.raises(LocalError, match="no verb 'dance'"):
        cluster.nodes["osd0"].command("dance")
    cluster.nodes["mon"].kill()
    with pytest.raises(LocalError, match="bring the cluster up again"):
        cluster.nodes["mon"].start()


def test_a_spec_of_another_kind_is_refused() -> None:
    with pytest.raises(LocalError, match="embedded daemon spec"):
        EmbeddedSpec.from_json({"embedded": "osd"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mon2: {ceph: mon}", "one monitor"),
        ("mds: {ceph: mds}", "no embedded mds"),
        ("osd2: {ceph: osd, options: {osd_debug: 1}}", "unknown option 'osd_debug'"),
    ],
)
def test_what_cannot_be_embedded(text: str, words: str) -> None:
    nodes = f"nodes:\n  mon: {{ceph: mon}}\n  osd: {{ceph: osd}}\n  {text}\nceph: {{release: embedded}}\n"
    with pytest.raises(LocalError, match=words):
        parse_spec(nodes, "mine.yaml")
