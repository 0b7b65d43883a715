"""The proxy on real sockets."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from messenger.v2.framing import CrcWriter
from messenger.v2.wire import Ack, encode_banner
from toolkit.faults.proxy import FaultProxy
from toolkit.faults.tap import Breakpoint

BANNER = encode_banner(1, 0)
ACKS = [CrcWriter().control(Ack.TAG, Ack(seq).encode()) for seq in range(1, 6)]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A listening socket on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def _pair(proxy: FaultProxy, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
    accepted, _ = server.accept()
    accepted.settimeout(10)
    return client, accepted


def _read(sock: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = sock.recv(size - len(received))
        if not chunk:
            break
        received += chunk
    return received


def _read_to_the_end(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := sock.recv(65536):
            received += chunk
    return received


def test_bytes_pass_both_ways_and_the_end_is_passed_on(server: socket.socket) -> None:
    with FaultProxy("a", "b", server.getsockname()) as proxy:
        client, accepted = _pair(proxy, server)
        with client, accepted:
            client.sendall(BANNER + ACKS[0])
            assert _read(accepted, len(BANNER + ACKS[0])) == BANNER + ACKS[0]
            accepted.sendall(BANNER)
            assert _read(client, len(BANNER)) == BANNER
            client.sendall(ACKS[1][:10])
            client.shutdown(socket.SHUT_WR)
            assert _read_to_the_end(accepted) == ACKS[1][:10]


def test_cut_at_a_frame_lets_just_that_much_through(server: socket.socket) -> None:
    cut = Breakpoint("a", "ACK", nth=2, byte=5)
    struck = threading.Event()
    with FaultProxy("a", "b", server.getsockname(), [cut], struck=lambda _: struck.set()) as proxy:
        client, accepted = _pair(proxy, server)
        with client, accepted:
            client.sendall(BANNER + ACKS[0] + ACKS[1] + ACKS[2])
            assert _read(accepted, len(BANNER + ACKS[0]) + 5) == BANNER + ACKS[0] + ACKS[1][:5]
            assert _read_to_the_end(accepted) == b""
            assert _read_to_the_end(client) == b""
            assert struck.wait(10)
    assert cut.hit is not None


def test_cut_now_ends_what_passes_and_new_connections_work(server: socket.socket) -> None:
    with FaultProxy("a", "b", server.getsockname()) as proxy:
        client, accepted = _pair(proxy, server)
        with client, accepted:
            client.sendall(BANNER)
            _read(accepted, len(BANNER))
            assert proxy.cut() == 1
            assert _read_to_the_end(client) == b""
            assert _read_to_the_end(accepted) == b""
        client, accepted = _pair(proxy, server)
        with client, accepted:
            client.sendall(BANNER)
            assert _read(accepted, len(BANNER)) == BANNER


def test_nobody_behind_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        target = gone.getsockname()
    with (
        FaultProxy("a", "b", target) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client,
    ):
        assert _read_to_the_end(client) == b""


def test_closing_leaves_nothing_behind(server: socket.socket) -> None:
    threads = threading.active_count()
    proxy = FaultProxy("a", "b", server.getsockname())
    client, accepted = _pair(proxy, server)
    with client, accepted:
        proxy.close()
        assert _read_to_the_end(client) == b""
        assert _read_to_the_end(accepted) == b""
    assert threading.active_count() == threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
