"""Counters of a messenger (SH-09), with the names and shapes of `ceph daemon ... perf dump`."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.link import Protocol
from messenger.perf import prometheus
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    ThrottleLimit,
)
from tests.support.network import Pair
from tests.support.node import Node
from toolkit.cluster.monitor import RealMonitor

WORKER = "AsyncMessenger::Worker-0"
THROTTLE_COUNTERS = [
    "val",
    "max",
    "get_started",
    "get",
    "get_sum",
    "get_or_fail_fail",
    "get_or_fail_success",
    "take",
    "take_sum",
    "put",
    "put_sum",
    "wait",
]
"""Of a throttle, in the order of a real monitor's (16.2)."""


def worker(node: Node) -> dict:
    return node.endpoint.perf_dump()[WORKER]


@pytest.mark.parametrize("protocol", Protocol)
def test_messages_are_counted_on_both_sides(protocol: Protocol) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, protocol=protocol)
    mine, theirs = pair.established()
    pair.a.send(mine, *range(10), size_bytes=100)
    pair.b.send(theirs, 1)
    pair.drive()
    assert (worker(pair.a)["msgr_send_messages"], worker(pair.a)["msgr_recv_messages"]) == (10, 1)
    assert (worker(pair.b)["msgr_send_messages"], worker(pair.b)["msgr_recv_messages"]) == (1, 10)
    assert worker(pair.a)["msgr_send_bytes"] == len(pair.wire.to_acceptor.log)
    assert worker(pair.a)["msgr_recv_bytes"] == len(pair.wire.to_connector.log)


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_bytes_are_those_of_the_wire(mode: ConMode) -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER, auth="cephx", mode=mode)
    mine, _ = pair.established()
    handshake = len(pair.wire.to_acceptor.log), len(pair.wire.to_connector.log)
    pair.a.send(mine, *range(10), size_bytes=1000)
    pair.drive()
    forth, back = len(pair.wire.to_acceptor.log), len(pair.wire.to_connector.log)
    counters = worker(pair.a)
    assert (counters["msgr_send_bytes"], counters["msgr_recv_bytes"]) == (forth, back)
    sealed = mode is ConMode.SECURE
    server_ident = 160 * sealed  # it opens the connector's data phase, and is the first that is counted
    assert counters["msgr_send_encrypted_bytes"] == (forth - handshake[0]) * sealed
    assert counters["msgr_recv_encrypted_bytes"] == (back - handshake[1]) * sealed + server_ident


def test_connections_and_their_timeouts() -> None:
    pair = Pair(LOSSY_CLIENT, STATELESS_SERVER, ms_connection_idle_timeout=5.0)
    mine, _ = pair.established()
    for node in pair.a, pair.b:
        assert worker(node)["msgr_created_connections"] == worker(node)["msgr_active_connections"] == 1
    pair.pass_time(10.0)
    assert worker(pair.a)["msgr_connection_idle_timeouts"] == 1
    assert worker(pair.a)["msgr_active_connections"] == 0
    pair.opened = lambda wire: wire.hold()
    pair.connect()
    pair.pass_time(10.1)
    assert worker(pair.a)["msgr_connection_ready_timeouts"] == 1
    assert mine.link is None


def test_faults_are_counted_by_their_reason() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    pair.established()
    assert not any(name.startswith("fault_") for name in pair.a.endpoint.perf_dump()["msgr"])
    pair.wire.cut()
    pair.drive()
    pair.wire.cut()
    pair.drive()
    assert pair.a.endpoint.perf_dump()["msgr"]["fault_socket"] == 2


def test_queue_latency_is_counted() -> None:
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine = pair.connect()
    pair.a.send(mine, 1, 2)
    pair.a.pump()
    pair.clock.now += 2.0
    pair.drive()
    latency = worker(pair.a)["msgr_send_messages_queue_lat"]
    assert latency == {"avgcount": 1, "sum": 2.0, "avgtime": 2.0}
    pair.a.send(mine, 3)
    pair.drive()
    assert worker(pair.a)["msgr_send_messages_queue_lat"] == {"avgcount": 2, "sum": 2.0, "avgtime": 1.0}


def test_throttles_count_as_in_ceph() -> None:
    policy = STATEFUL_SERVER.throttled(
        messages=ThrottleLimit("osd_client_messages", 2), size_bytes=ThrottleLimit("osd_client_bytes", 1000)
    )
    pair = Pair(LOSSLESS_CLIENT, policy)
    mine, _ = pair.established()
    pair.b.hoarding = True
    pair.a.send(mine, 1, 2, 3, size_bytes=100)
    pair.drive()
    pair.clock.now += 3.0
    for _ in range(3):
        session, message = pair.b.delivered.pop(0)
        pair.b.endpoint.release(message.size_bytes, pair.clock.now, session)
        pair.drive()
    dump = pair.b.endpoint.perf_dump()
    for group in (
        "throttle-osd_client_messages",
        "throttle-osd_client_bytes",
        "throttle-msgr_dispatch_throttler-osd",
    ):
        assert list(dump[group]) == THROTTLE_COUNTERS
        assert (dump[group]["val"], dump[group]["get"], dump[group]["put"]) == (0, 3, 3)
    assert dump["throttle-osd_client_bytes"]["get_sum"] == dump["throttle-osd_client_bytes"]["put_sum"] == 300
    assert dump["throttle-osd_client_messages"]["max"] == 2
    assert dump["throttle-osd_client_messages"]["get_or_fail_fail"] >= 1
    assert dump["throttle-osd_client_messages"]["wait"] == {"avgcount": 1, "sum": 3.0, "avgtime": 3.0}


def test_prometheus_text_is_named_as_cephs_exporter_names_it() -> None:
    dump = {
        "AsyncMessenger::Worker-0": {"msgr_recv_messages": 7, "msgr_active_connections": 1},
        "AsyncMessenger::Worker-1": {"msgr_recv_messages": 8, "msgr_active_connections": 0},
        "throttle-msgr_dispatch_throttler-osd": {"val": 5, "wait": {"avgcount": 2, "sum": 3.5, "avgtime": 1.75}},
        "msgr": {"fault_eof": 2},
    }
    assert prometheus(dump, "osd.1").splitlines() == [
        "# TYPE ceph_AsyncMessenger_Worker_msgr_recv_messages counter",
        'ceph_AsyncMessenger_Worker_msgr_recv_messages{ceph_daemon="osd.1",id="0"} 7',
        'ceph_AsyncMessenger_Worker_msgr_recv_messages{ceph_daemon="osd.1",id="1"} 8',
        "# TYPE ceph_AsyncMessenger_Worker_msgr_active_connections gauge",
        'ceph_AsyncMessenger_Worker_msgr_active_connections{ceph_daemon="osd.1",id="0"} 1',
        'ceph_AsyncMessenger_Worker_msgr_active_connections{ceph_daemon="osd.1",id="1"} 0',
        "# TYPE ceph_throttle_msgr_dispatch_throttler_osd_val gauge",
        'ceph_throttle_msgr_dispatch_throttler_osd_val{ceph_daemon="osd.1"} 5',
        "# TYPE ceph_throttle_msgr_dispatch_throttler_osd_wait_sum counter",
        'ceph_throttle_msgr_dispatch_throttler_osd_wait_sum{ceph_daemon="osd.1"} 3.5',
        "# TYPE ceph_throttle_msgr_dispatch_throttler_osd_wait_count counter",
        'ceph_throttle_msgr_dispatch_throttler_osd_wait_count{ceph_daemon="osd.1"} 2',
        "# TYPE ceph_msgr_fault_eof counter",
        'ceph_msgr_fault_eof{ceph_daemon="osd.1"} 2',
    ]


def test_large_numbers_are_written_in_full() -> None:
    text = prometheus({"msgr": {"x": 123_456_789_012}}, "osd.1")
    assert text.splitlines()[1] == 'ceph_msgr_x{ceph_daemon="osd.1"} 123456789012'


@pytest.mark.needs("ceph-mon", "ceph-authtool")
def test_the_names_are_those_of_a_real_monitor() -> None:
    with RealMonitor() as monitor:
        real = monitor.admin("perf dump")
    pair = Pair(policy=LOSSLESS_CLIENT.throttled(size_bytes=ThrottleLimit("mon_client_bytes", 100)))
    pair.established()
    mine = pair.a.endpoint.perf_dump()
    newer = {
        "msgr_recv_encrypted_bytes",
        "msgr_send_encrypted_bytes",
        "msgr_connection_ready_timeouts",
        "msgr_connection_idle_timeouts",
    }
    assert set(mine[WORKER]) - newer <= set(real[WORKER])
    assert set(mine[WORKER]["msgr_send_messages_queue_lat"]) == set(real[WORKER]["msgr_send_messages_queue_lat"])
    assert list(mine["throttle-mon_client_bytes"]) == list(real["throttle-mon_client_bytes"])
    assert list(mine["throttle-msgr_dispatch_throttler-osd"]) == list(real["throttle-msgr_dispatch_throttler-mon"])
