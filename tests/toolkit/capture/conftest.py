"""TCP conversations to capture, here and in a network namespace of the test's own."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import require
from tests.support.quiet import own_network
from toolkit.capture.target import NAMED_NAMESPACES, Target

_CHUNK_BYTES = 1 << 16

__all__ = ["own_network"]


@pytest.fixture(autouse=True)
def quiet(own_network: None) -> None:
    """Run each test in a namespace of its own, so that it captures its own packets only."""


def converse(sent: bytes, host: str = "127.0.0.1", port: int = 0, inside: Target | None = None) -> int:
    """Send bytes over a TCP connection that then ends; returns the listener's port."""
    target = inside or Target.parse("lo")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    def connected() -> tuple[socket.socket, socket.socket, int]:
        with closing(socket.create_server((host, port), family=family)) as listener:
            where = listener.getsockname()[:2]
            client = socket.create_connection(where)
            return client, listener.accept()[0], where[1]

    client, server, used = target.inside(connected)
    with closing(client), closing(server):
        for start in range(0, len(sent), _CHUNK_BYTES):  # chunks fit into the socket buffers
            client.sendall(chunk := sent[start : start + _CHUNK_BYTES])
            assert server.recv(len(chunk), socket.MSG_WAITALL) == chunk
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""
    return int(used)


@pytest.fixture
def namespace() -> Iterator[str]:
    """The name of a network namespace with a loopback interface that is up."""
    require("netns")
    if os.geteuid():
        pytest.skip("named namespaces need root")
    from pyroute2 import NetNS, netns

    name = f"msgrlab-test-{os.getpid()}"
    netns.create(name)
    try:
        with NetNS(name) as inside:
            inside.link("set", index=1, state="up")
        assert (NAMED_NAMESPACES / name).exists()
        yield name
    finally:
        netns.remove(name)
