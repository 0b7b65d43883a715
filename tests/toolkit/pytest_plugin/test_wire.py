"""Proxies and captures of tests."""

import pytest

from tests.support.plugin import run_tests, session

__all__ = ["session"]

pytest_plugins = ["pytester"]

PROXY = """
import socket

def answer(server):
    with server.accept()[0] as link:
        link.sendall(b"ceph v2\\n\\x10\\0" + bytes(16))
        link.recv(100)

def test_proxy(msgrlab_proxy):
    import threading
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    proxy = msgrlab_proxy(f"127.0.0.1:{server.getsockname()[1]}", "<- BANNER #1: cut")
    try:
        with socket.create_connection(("127.0.0.1", proxy.port)) as link:
            assert link.recv(100) == b""
    except ConnectionResetError:
        pass
    proxy.expect(lambda proxy: proxy.hits)
    raise AssertionError("to see the report")

def test_it_is_closed():
    import threading
    assert "fault proxy" not in {thread.name for thread in threading.enumerate()}
"""

CAPTURE = """
import pytest

@pytest.mark.needs("capture", reason="it reads the wire")
def test_capture(msgrlab_capture, msgrlab_cluster):
    cluster = msgrlab_cluster("two-peers")
    address = cluster.nodes["b"].address.rpartition("/")[0].rpartition(":")[2]
    capture = msgrlab_capture("lo", ports=address)
    cluster.fault("reset a b")
    cluster.nodes["a"].command("send", peer="b", count=3)
    cluster.history.wait_beyond(len(cluster.history) + 50, 10)
    assert {"HELLO", "MESSAGE"} <= {frame.tag for frame in capture.read().frames}
    raise AssertionError("to see the report")
"""


def test_the_report_has_what_passed_a_proxy(session: pytest.Pytester) -> None:
    result = run_tests(session, PROXY)
    result.assert_outcomes(failed=1, passed=1)
    text = str(result.stdout)
    assert "-- msgrlab: proxy 127.0.0.1:" in text
    assert "rules: ['<- BANNER #1: cut']" in text


@pytest.mark.needs("capture")
def test_the_report_keeps_a_capture(session: pytest.Pytester) -> None:
    result = run_tests(session, CAPTURE, "--msgrlab-out=kept")
    result.assert_outcomes(failed=1)
    assert "to see the report" in str(result.stdout)
    (kept,) = (session.path / "kept").rglob("capture.pcapng")
    assert f"  capture: {kept}" in str(result.stdout)
    assert kept.stat().st_size > 1000
