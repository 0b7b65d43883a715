"""Frames between two peers: cut by a proxy, and captured."""

import socket

import pytest

from toolkit.cluster import Cluster
from toolkit.pytest_plugin import Captures, Proxies


def banner_of(address: str) -> bytes:
    """The first bytes from the peer at an address such as v2:127.0.0.1:6800/1; empty if the link is cut."""
    host, _, port = address.removeprefix("v2:").partition("/")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as link:
            return link.recv(8)
    except ConnectionResetError:  # the reset may come before connect() returns
        return b""


def test_a_proxy_cuts_at_a_frame(pair: Cluster, msgrlab_proxy: Proxies) -> None:
    proxy = msgrlab_proxy(pair.nodes["b"].address, "<- BANNER #1: cut")
    assert banner_of(proxy.address) == b""
    proxy.expect(lambda proxy: len(proxy.hits) == 1)
    assert banner_of(proxy.address) == b"ceph v2\n"


@pytest.mark.needs("capture", reason="it reads packets off the wire")
def test_a_capture_is_decoded(pair: Cluster, msgrlab_capture: Captures) -> None:
    address = pair.nodes["b"].address
    capture = msgrlab_capture("lo", ports=address.rpartition("/")[0].rpartition(":")[2])
    assert banner_of(address) == b"ceph v2\n"
    assert "BANNER" in {frame.tag for frame in capture.read().frames}
