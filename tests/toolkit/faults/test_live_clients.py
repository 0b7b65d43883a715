"""Ceph's own clients and daemons on both sides of the proxy, which take it for each other."""

import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from toolkit.cluster.daemons import Mode
from toolkit.cluster.monitor import RealMonitor
from toolkit.faults.live import Proxy

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")

Monitors = Callable[[Mode], RealMonitor]

RULES = [
    "-> HELLO #1: cut before",
    "<- AUTH_DONE #1: cut after",
    "<- SERVER_IDENT #1: hold it for 200ms",
    "-> CLIENT_IDENT #1: duplicate",
    "<- AUTH_SIGNATURE #1: corrupt byte 3 of segment 0 fixed",
    "<- SERVER_IDENT #1: set features_required=0xffffffffffffffff",
    "<- MESSAGE mon_map #1: cut at 40",
    "-> MESSAGE mon_command #1: cut before",
    "<- MESSAGE mon_command_ack #1: delay 100ms",
    "<- M* #2: trickle 100",
    "dial #1: refuse",
]


def _ceph(monitor: RealMonitor, proxy: Proxy, protocol: str, *words: str) -> str:
    """Return the output of ``ceph`` with the proxy as its only monitor."""
    command = ["ceph", "-c", str(monitor.conf), "--mon-host", f"[{protocol}:{proxy.address}]"]
    done = subprocess.run(
        [*command, "--connect-timeout", "30", *words], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _target(monitor: RealMonitor, protocol: str) -> str:
    return f"127.0.0.1:{monitor.port_v1 if protocol == 'v1' else monitor.port_v2}"


@pytest.fixture(scope="module")
def old_monitor() -> Iterator[RealMonitor]:
    """One that speaks v1 only; of one that speaks both, clients learn to prefer v2, and leave."""
    with RealMonitor(v1_only=True) as monitor:
        yield monitor


@pytest.mark.parametrize(("mode", "protocol"), [("crc", "v2"), ("secure", "v2"), ("crc", "v1")])
def test_ceph_sees_the_cluster_through_it(
    real_monitor: Monitors, old_monitor: RealMonitor, mode: Mode, protocol: str
) -> None:
    monitor = old_monitor if protocol == "v1" else real_monitor(mode)
    with Proxy(_target(monitor, protocol), keyring=monitor.keyring, pretend=True) as proxy:
        shown = _ceph(monitor, proxy, protocol, "mon", "dump")
        assert monitor.fsid in shown
        assert not [hit.problem for hit in proxy.hits]
        assert not [link.blind for link in proxy.links if link.blind]
        names = {frame.message.name for frame in proxy.frames if frame.message is not None}
        assert {"mon_map", "mon_command", "mon_command_ack"} <= names
        assert {frame.mode for frame in proxy.frames if frame.message is not None} == {mode}


@pytest.mark.parametrize("mode", ["crc", "secure"])
@pytest.mark.parametrize("rule", RULES)
def test_ceph_command_survives_each_rule_once(real_monitor: Monitors, mode: Mode, rule: str) -> None:
    monitor = real_monitor(mode)
    with Proxy(_target(monitor, "v2"), rule, keyring=monitor.keyring, pretend=True) as proxy:
        assert monitor.fsid in _ceph(monitor, proxy, "v2", "mon", "dump")
        assert [hit.rule for hit in proxy.hits if not hit.problem] == proxy.rules


@pytest.mark.parametrize("rule", ["<- CONNECT_REPLY #1: cut after", "-> MSG mon_command #1: cut at 50"])
def test_ceph_on_v1(old_monitor: RealMonitor, rule: str) -> None:
    with Proxy(_target(old_monitor, "v1"), rule, keyring=old_monitor.keyring, pretend=True) as proxy:
        assert old_monitor.fsid in _ceph(old_monitor, proxy, "v1", "mon", "dump")
        assert len(proxy.hits) == 1


def test_monitor_closes_links_of_a_proxy_without_address_translation(real_monitor: Monitors) -> None:
    """A connector says whom it wants, and a monitor that is at another address closes."""
    monitor = real_monitor("crc")
    with Proxy(_target(monitor, "v2"), keyring=monitor.keyring) as proxy:
        command = [
            "ceph",
            "-c",
            str(monitor.conf),
            "--mon-host",
            f"[v2:{proxy.address}]",
            "--connect-timeout",
            "1",
        ]
        done = subprocess.run([*command, "mon", "dump"], capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode != 0
        assert proxy.counters["-> CLIENT_IDENT"] > 0
        assert proxy.counters["<- SERVER_IDENT"] == 0


def test_monitor_with_the_proxy_address_needs_no_translation() -> None:
    """``public_bind_addr`` is where it listens; its announced address is that of the proxy."""
    with socket.create_server(("127.0.0.1", 0)) as v2, socket.create_server(("127.0.0.1", 0)) as v1:
        ports = v2.getsockname()[1], v1.getsockname()[1]
    listen = f"127.0.0.1:{ports[0]}"
    with (
        Proxy(f"127.0.0.2:{ports[0]}", "<- MESSAGE #1: delay 50ms", listen=listen) as proxy,
        RealMonitor(ports=ports, options={"public_bind_addr": f"127.0.0.2:{ports[0]}"}) as monitor,
    ):
        assert f"v2:{proxy.address}/0" in monitor.ceph("mon", "dump")
        assert len(proxy.hits) == 1
