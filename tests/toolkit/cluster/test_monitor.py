import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.cluster import monitor as module
from toolkit.cluster.monitor import Mode, RealMonitor
from toolkit.errors import Unsupported
from toolkit.machine.ports import reserved_socket

pytestmark = pytest.mark.needs("ceph-mon", "ceph-authtool", "ceph")


PR_SET_CHILD_SUBREAPER = 36


def refuses(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((module.HOST, port)) != 0


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_ceph_client_connects_in_the_given_mode(mode: Mode, real_monitor: Callable[[Mode], RealMonitor]) -> None:
    monitor = real_monitor(mode)
    status = json.loads(monitor.ceph("-s", "-f", "json"))
    assert status["fsid"] == monitor.fsid
    assert status["quorum_names"] == ["a"]
    other = "secure" if mode == "crc" else "crc"
    log = monitor.log.read_text()
    assert f" {mode} :-1 s=READY" in log
    assert f" {other} :-1 s=READY" not in log


def test_both_protocols_are_bound_at_the_given_addresses(real_monitor: Callable[[Mode], RealMonitor]) -> None:
    monitor = real_monitor("crc")
    (mon,) = monitor.admin("mon_status")["monmap"]["mons"]
    addresses = [f"{addr['type']}:{addr['addr']}/{addr['nonce']}" for addr in mon["public_addrs"]["addrvec"]]
    assert addresses == [monitor.addr_v2, monitor.addr_v1]
    for port, banner in ((monitor.port_v2, b"ceph v2\n"), (monitor.port_v1, b"ceph v027")):
        with socket.create_connection((module.HOST, port), timeout=60) as client:
            client.sendall(banner)  # a v2 server waits for the client's banner before it sends more than its own
            assert client.recv(len(banner), socket.MSG_WAITALL) == banner


def test_monitor_listens_on_v1_only_at_the_given_ports() -> None:
    with reserved_socket(module.HOST) as v2, reserved_socket(module.HOST) as v1:
        ports = v2.getsockname()[1], v1.getsockname()[1]
        with RealMonitor(ports=ports, v1_only=True) as monitor:
            (mon,) = monitor.admin("mon_status")["monmap"]["mons"]
            assert [addr["addr"] for addr in mon["public_addrs"]["addrvec"]] == [f"{module.HOST}:{ports[1]}"]
            assert monitor.addresses == f"[v1:{module.HOST}:{ports[1]}/0]"
            assert refuses(ports[0])
            assert json.loads(monitor.ceph("-s", "-f", "json"))["fsid"] == monitor.fsid


def test_monitor_keyring_contains_the_admin_key(real_monitor: Callable[[Mode], RealMonitor]) -> None:
    monitor = real_monitor("crc")
    key = monitor.ceph("auth", "get-key", "client.admin")
    assert f"key = {key}\n" in monitor.keyring.read_text()


def test_concurrent_monitors_run_and_leave_nothing() -> None:
    environment = dict(os.environ)
    with RealMonitor("secure crc", options={"mon_max_osd": "77"}) as one, RealMonitor() as two:
        assert one.fsid != two.fsid
        assert len({one.port_v1, one.port_v2, two.port_v1, two.port_v2}) == 4
        assert one.admin("config show")["mon_max_osd"] == "77"
        assert one.admin("config show")["ms_mon_service_mode"] == "secure crc"
    for monitor in (one, two):
        assert not monitor.directory.exists()
        assert not alive(monitor.pid)
        assert refuses(monitor.port_v2)
        assert refuses(monitor.port_v1)
        monitor.stop()
    assert dict(os.environ) == environment


def waited(pid: int) -> int:
    """The signal that ended our child; one that goes on is ended here, with another."""
    deadline_s = time.monotonic() + 5
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WTERMSIG(status)
        if time.monotonic() > deadline_s:
            os.kill(pid, signal.SIGABRT)
        time.sleep(0.01)


@pytest.fixture
def orphans() -> Iterator[None]:
    """Orphans become children of the test, which can then wait for them."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0)


def test_monitor_dies_with_the_process_that_started_it(orphans: None) -> None:
    code = "import sys; from toolkit.cluster.monitor import RealMonitor as M; m = M()\n"
    code += "print(m.pid, m.directory, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        assert alive(int(pid))
        owner.kill()
    try:
        assert waited(int(pid)) == signal.SIGKILL
    finally:
        shutil.rmtree(directory)


def test_monitor_ends_with_the_interpreter() -> None:
    code = "from toolkit.cluster.monitor import RealMonitor as M; m = M(); print(m.pid, m.directory)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid, directory = done.stdout.split()
    assert not alive(int(pid))
    assert not Path(directory).exists()


def test_failed_start_of_a_monitor_reports_its_cause_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(LocalError, match="ceph-mon did not come up: it ended with exit code") as caught:
        RealMonitor(options={"mon_data_avail_crit": "101"})
    assert "reached concerning levels of available storage space" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_start_of_a_hanging_monitor_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "START_TIMEOUT_S", 0.0)
    with pytest.raises(LocalError, match="ceph-mon did not come up: no quorum within 0 s"):
        RealMonitor()
    assert list(tmp_path.iterdir()) == []


def test_failed_command_raises_the_message_of_ceph(real_monitor: Callable[[Mode], RealMonitor]) -> None:
    with pytest.raises(LocalError, match="no valid command found"):
        real_monitor("crc").ceph("no-such-command")
    with pytest.raises(LocalError, match=r"mon\.a on 'no-such-command'"):
        real_monitor("crc").admin("no-such-command")


def test_another_clusters_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPH_ARGS", "--mon-host 192.0.2.1 --fsid 0")
    monkeypatch.setenv("CEPH_CONF", "/nonexistent")
    with RealMonitor() as monitor:
        assert monitor.ceph("fsid").strip() == monitor.fsid


def test_a_directory_too_deep_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(module.tempfile, "tempdir", str(deep))
    with pytest.raises(LocalError, match="set TMPDIR to a shorter one"):
        RealMonitor()


def test_monitor_refuses_an_unknown_mode() -> None:
    with pytest.raises(LocalError, match="no connection mode 'plain'; known: crc, secure, "):
        RealMonitor("plain")  # type: ignore[arg-type]


def test_without_ceph_installed_it_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unsupported, match=r"not installed: ceph-mon, .*apt-get install ceph-common ceph-mon"):
        RealMonitor()
