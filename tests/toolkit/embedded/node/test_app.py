"""Embedded daemons as nodes of a cluster."""

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial

import pytest

from messenger.errors import LocalError
from messenger.messages.osd_op import MOSDOp
from tests.support.aio import on_loop, until
from toolkit.cluster import Cluster
from toolkit.cluster.spec import parse_spec
from toolkit.embedded.node.spec import MOST_QUEUED_BYTES, EmbeddedSpec
from toolkit.embedded.osd.daemon import MOST_UNREAD_BYTES
from toolkit.rados.client import Rados

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


def test_client_keeps_its_objects_over_a_restart_of_an_osd(msgrlab_cluster: Callable[..., Cluster], spec) -> None:
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


@on_loop
async def test_requests_wait_until_their_client_reads_its_answers(
    msgrlab_cluster: Callable[..., Cluster], spec
) -> None:
    cluster = msgrlab_cluster(spec, check=True)
    size_bytes = 8 << 20
    asked = 2 * MOST_UNREAD_BYTES // size_bytes
    async with Rados.connect(cluster.nodes["mon"].address, keyring=cluster.ceph_keyring) as rados:
        await rados.create_pool("objects")
        pool = rados.pool("objects")
        await pool.write_full("large", bytes(size_bytes))
        ((name, connection),) = [each for each in rados.connections.items() if each[0].startswith("osd")]
        osd = cluster.nodes[name.replace(".", "")]
        assert connection.session.link is not None
        link = rados._messenger._links[connection.session.link.id]
        link.pause(paused=True)
        reads = [asyncio.ensure_future(pool.read("large", offset=1)) for _ in range(asked)]
        delivered = partial(_deliveries, cluster, osd.name)
        await until(lambda: delivered() > asked)
        queued_bytes = osd.command("perf_dump")["msgr-now"]["queued_bytes"]
        assert size_bytes < queued_bytes <= MOST_UNREAD_BYTES * 9 // 8 + size_bytes
        link.pause(paused=False)
        assert {len(each) for each in await asyncio.gather(*reads)} == {size_bytes - 1}


def _deliveries(cluster: Cluster, node: str) -> int:
    """How many requests a node has got."""
    delivered = cluster.history.so_far().of("deliver")
    return sum(each.node == node and each["type"] == MOSDOp.TYPE for each in delivered)


def test_a_monitor_is_not_restarted(msgrlab_cluster: Callable[..., Cluster], spec) -> None:
    cluster = msgrlab_cluster(spec)
    with pytest.raises(LocalError, match="keeps its maps in memory"):
        cluster.nodes["mon"].restart()
    with pytest.raises(LocalError, match="no verb 'dance'"):
        cluster.nodes["osd0"].command("dance")
    cluster.nodes["mon"].kill()
    with pytest.raises(LocalError, match="bring the cluster up again"):
        cluster.nodes["mon"].start()


def test_osds_compress_what_clients_ask_them_to(msgrlab_cluster: Callable[..., Cluster]) -> None:
    cluster = msgrlab_cluster(parse_spec(f"speaks: {{mode: compressed}}\n{SPEC}", "mine.yaml"), check=True)
    app = cluster.nodes["app"]
    app.command("fill", count=4, size_bytes=10_000)
    assert app.command("verify") == {"checked": 4, "wrong": []}
    records = [record for record in cluster.history.so_far().of("frame") if record.node.startswith("osd")]
    answers = [each.fields["fields"] for each in records if each.fields["tag"] == "COMPRESSION_DONE"]
    assert {"is_compress": True, "method": 1} in [dict(answer) for answer in answers]


def test_tickets_and_service_keys_of_seconds_are_renewed(msgrlab_cluster: Callable[..., Cluster]) -> None:
    text = SPEC.replace("release: embedded", "release: embedded, options: {auth_service_ticket_ttl: 2}")
    cluster = msgrlab_cluster(parse_spec(text, "mine.yaml"), check=True)
    app, began_s = cluster.nodes["app"], time.monotonic()
    while time.monotonic() < began_s + 7:  # by then no key is left of those at the beginning
        time.sleep(0.5)
    cluster.nodes["osd0"].restart()
    app.restart()
    app.command("fill", count=20, wait_s=20)
    assert app.command("verify") == {"checked": 20, "wrong": []}
    left = [record.fields["ticket_left_s"] for record in cluster.history.so_far().of("auth")]
    assert all(0 < each <= 2 for each in left if each is not None)


def test_the_lifetime_of_tickets_is_changed_at_the_monitor(msgrlab_cluster: Callable[..., Cluster], spec) -> None:
    cluster = msgrlab_cluster(spec)
    mon, app = cluster.nodes["mon"], cluster.nodes["app"]
    mon.command("configure", options={"auth_service_ticket_ttl": 30, "ms_max_backoff": 1.0})
    app.restart()
    app.command("fill", count=4, wait_s=20)
    left = [record.fields["ticket_left_s"] for record in cluster.history.so_far().of("auth")]
    assert 29 < min(each for each in left if each is not None) <= 30
    for value, words in ((1, "give seconds, 2 or more"), ("x", "give seconds"), (True, "give seconds")):
        with pytest.raises(LocalError, match=f"auth_mon_ticket_ttl = {value!r}: {words}"):
            mon.command("configure", options={"auth_mon_ticket_ttl": value})
    with pytest.raises(LocalError, match="the monitor makes the tickets"):
        cluster.nodes["osd0"].command("configure", options={"auth_service_ticket_ttl": 30})


@pytest.mark.parametrize(("options", "limit_bytes"), [({}, MOST_QUEUED_BYTES), ({"max_queued_bytes": 5}, 5)])
def test_what_waits_for_a_client_is_limited(options: dict[str, object], limit_bytes: int) -> None:
    spec = EmbeddedSpec(
        name="mon",
        embedded="mon",
        id="a",
        addr="v2:127.0.0.1:1/0",
        fsid="",
        monitors={},
        keyring="",
        options=options,
    )
    assert spec.config().max_queued_bytes == limit_bytes


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
def test_spec_refuses_what_the_embedded_release_lacks(text: str, words: str) -> None:
    nodes = f"nodes:\n  mon: {{ceph: mon}}\n  osd: {{ceph: osd}}\n  {text}\nceph: {{release: embedded}}\n"
    with pytest.raises(LocalError, match=words):
        parse_spec(nodes, "mine.yaml")


def test_spec_refuses_too_short_ticket_lifetimes() -> None:
    text = SPEC.replace("release: embedded", "release: embedded, options: {auth_service_ticket_ttl: 1}")
    with pytest.raises(LocalError, match=r"6: ceph\.options\.auth_service_ticket_ttl: .*give seconds, 2 or more"):
        parse_spec(text, "mine.yaml")


@on_loop
async def test_an_osd_that_a_command_marks_down_comes_back(msgrlab_cluster: Callable[..., Cluster], spec) -> None:
    cluster = msgrlab_cluster(spec, check=True)
    async with Rados.connect(cluster.nodes["mon"].address, keyring=cluster.ceph_keyring) as rados:
        pool = await rados.create_pool("objects")
        await pool.write_full("kept", b"x")
        await rados.command({"prefix": "osd set", "key": "noup"})
        await rados.command({"prefix": "osd down", "ids": ["0", "1"]})
        await until(lambda: not any(osd.is_up for osd in rados.osdmap.osds))
        write = asyncio.ensure_future(pool.append("kept", b"y"))
        await rados.command({"prefix": "osd unset", "key": "noup"})
        await until(lambda: all(osd.is_up for osd in rados.osdmap.osds))
        await write
        assert await pool.read("kept") == b"xy"
        reply = await rados.command({"prefix": "log last", "num": 20, "format": "json"})
        assert any("osds down" in entry["message"] for entry in json.loads(reply.output))
