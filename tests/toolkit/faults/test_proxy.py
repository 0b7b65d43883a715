"""The proxy on real sockets."""

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import os
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from messenger.denc.codec import Buffer
from messenger.errors import LocalError
from messenger.v2.framing import CrcWriter
from messenger.v2.wire import Ack, encode_banner
from toolkit.dissect.direction import Direction
from toolkit.faults.proxy import FaultProxy
from toolkit.faults.script import strikes
from toolkit.faults.tap import Breakpoint
from toolkit.machine.loops import LoopThread

T = TypeVar("T")

BANNER = encode_banner(1, 0)
PUT_BACK = "-> ACK: inject ACK seq=7 back"
MOST_BUFFERED_BYTES = 32 << 20
"""More than the buffers of the proxy and of four sockets hold."""
SILENCE_S = 3.0
"""Seconds after which a proxy that reads nothing is taken to wait."""
ACKS = [CrcWriter().control(Ack.TAG, Ack(seq).encode()) for seq in range(1, 6)]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A listening socket on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def _pair(proxy: FaultProxy, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
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


def test_cut_at_a_frame_forwards_exactly_the_given_bytes(server: socket.socket) -> None:
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


def test_cut_closes_links_and_new_connections_work(server: socket.socket) -> None:
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


def test_proxy_closes_the_connection_if_its_target_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        target = closed.getsockname()
    with (
        FaultProxy("a", "b", target) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client,
    ):
        assert _read_to_the_end(client) == b""


def test_proxy_close_ends_its_links_and_threads(server: socket.socket) -> None:
    threads = threading.active_count()
    proxy = FaultProxy("a", "b", server.getsockname())
    client, accepted = _pair(proxy, server)
    with client, accepted:
        proxy.close()
        assert _read_to_the_end(client) == b""
        assert _read_to_the_end(accepted) == b""
    assert threading.active_count() == threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=60)


def test_listens_and_dials_on_ipv6() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as server,
        FaultProxy("a", "b", server.getsockname()[:2], host="::1") as proxy,
        socket.create_connection(("::1", proxy.port), timeout=60) as client,
    ):
        server.settimeout(10)
        with server.accept()[0] as accepted:
            client.sendall(BANNER)
            assert _read(accepted, len(BANNER)) == BANNER


def test_proxy_listens_at_the_given_address(server: socket.socket) -> None:
    with FaultProxy("a", "b", server.getsockname(), host="127.0.0.9") as proxy:
        port = proxy.port
        with socket.create_connection(("127.0.0.9", port), timeout=60):
            server.accept()[0].close()
    # at once again: what is left of its connections must not be in the way
    with FaultProxy("a", "b", server.getsockname(), host="127.0.0.9", port=port) as proxy:
        assert proxy.port == port
        with pytest.raises(LocalError, match=f"cannot listen at 127.0.0.9 port {port}: Address already in use"):
            FaultProxy("a", "b", server.getsockname(), host="127.0.0.9", port=port)


def test_the_target_must_have_an_address() -> None:
    with pytest.raises(LocalError, match=r"target no\.such\.host\.invalid port 1"):
        FaultProxy("a", "b", ("no.such.host.invalid", 1))


def test_sockets_are_opened_inside(server: socket.socket) -> None:
    opened: list[object] = []

    def inside(what: Callable[[], T], /) -> T:
        opened.append(what())
        return opened[-1]  # type: ignore[return-value] # what was just put there

    with FaultProxy("a", "b", server.getsockname(), inside=inside) as proxy:
        client, accepted = _pair(proxy, server)
        with client, accepted:
            sockets = [one for one in opened if isinstance(one, socket.socket)]
            assert len(sockets) == 3  # keeps the port, listens, dials
            proxy.refuse()
            proxy.heal()
            assert sum(isinstance(one, socket.socket) for one in opened) == 4


@pytest.mark.needs("netns")
def test_proxy_works_in_a_network_namespace() -> None:
    namespace = _elsewhere(_new_namespace)

    def inside(what: Callable[[], T], /) -> T:
        def entered() -> T:
            _checked(_LIBC.setns(namespace, _CLONE_NEWNET))
            return what()

        return _elsewhere(entered)

    try:
        with (
            inside(lambda: socket.create_server(("127.0.0.1", 0))) as server,
            FaultProxy("a", "b", server.getsockname(), inside=inside) as proxy,
        ):
            server.settimeout(10)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
            client = inside(lambda: socket.create_connection(("127.0.0.1", proxy.port), timeout=60))
            with client, server.accept()[0] as accepted:
                client.sendall(BANNER)
                assert _read(accepted, len(BANNER)) == BANNER
    finally:
        os.close(namespace)


_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _new_namespace() -> int:
    """A network namespace with a loopback interface that is up, as an open file."""
    _checked(_LIBC.unshare(_CLONE_NEWNET))
    with socket.socket() as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS: IFF_UP
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _elsewhere(what: Callable[[], T]) -> T:
    """Do it in a thread of its own, which may enter a namespace and never come back."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(what).result()


@pytest.mark.parametrize("end", ["close", "refuse"])
def test_dial_during_stop_of_a_proxy_leaves_no_socket_open(end: str) -> None:
    """A socket that is left would be found by the garbage collector, which is an error here."""
    gc.collect()  # what earlier tests left
    before = len(list(Path("/proc/self/fd").iterdir()))
    with socket.create_server(("127.0.0.1", 0), backlog=100) as target:
        loop = LoopThread("proxies")
        for _ in range(20):
            proxy = FaultProxy("a", "b", target.getsockname(), loop=loop)
            with contextlib.ExitStack() as dialled:
                for _ in range(10):
                    sock = dialled.enter_context(socket.socket())
                    sock.setblocking(False)
                    sock.connect_ex(("127.0.0.1", proxy.port))
                getattr(proxy, end)()
                proxy.close()
        loop.close()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _sent_until_silence(client: socket.socket, batch: bytes) -> int:
    """Send a batch again and again until the peer reads no more, or has read too much; returns the bytes sent."""
    client.settimeout(SILENCE_S)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < MOST_BUFFERED_BYTES:
            sent += client.send(batch[sent % len(batch) :])
    return sent


def test_frame_put_back_is_not_put_into_another_frame(server: socket.socket) -> None:
    pieces: list[Buffer] = []
    CrcWriter().message(pieces, bytes(41), bytes(range(256)) * 400, b"", b"")
    message = b"".join(pieces)
    with FaultProxy("a", "b", server.getsockname(), strikes(PUT_BACK, "a", "b")) as proxy:
        client, accepted = _pair(proxy, server)
        with client, accepted:
            client.sendall(BANNER)
            accepted.sendall(BANNER)
            assert _read(client, len(BANNER)) == BANNER
            proxy.slow(Direction.TO_CLIENT, 200_000)
            accepted.sendall(message)
            received = _read(client, 1000)
            client.sendall(ACKS[0])
            assert _read(accepted, len(BANNER + ACKS[0])) == BANNER + ACKS[0]
            received += _read(client, len(message) - len(received))
            assert received == message
            assert _read(client, len(ACKS[0])) == CrcWriter().control(Ack.TAG, Ack(7).encode())


def test_frames_put_back_wait_for_their_receiver(server: socket.socket) -> None:
    """The proxy reads no more from a client that does not read what is put back to it."""
    with FaultProxy("a", "b", server.getsockname(), strikes(PUT_BACK, "a", "b")) as proxy:
        client, accepted = _pair(proxy, server)
        accepted.settimeout(60)
        drained = threading.Thread(target=_read_to_the_end, args=(accepted,))
        with accepted:
            with client:
                accepted.sendall(BANNER)
                client.sendall(BANNER)
                drained.start()
                assert _sent_until_silence(client, ACKS[0] * 4000) < MOST_BUFFERED_BYTES
            drained.join()


def test_a_connection_that_its_receiver_has_just_reset_is_not_half_closed(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = LoopThread("proxy")
    proxy = FaultProxy("a", "b", server.getsockname(), loop=thread)
    client, accepted = _pair(proxy, server)
    client.sendall(BANNER)
    _read(accepted, len(BANNER))
    asked, submit = threading.Event(), asyncio.run_coroutine_threadsafe

    def reset() -> None:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()

    def submit_before_a_reset(what: Coroutine[object, object, int], loop: asyncio.AbstractEventLoop) -> object:
        future = submit(what, loop)
        loop.call_soon_threadsafe(reset)  # the request begins after it, and before the loop looks at sockets again
        asked.set()
        return future

    thread.loop.call_soon_threadsafe(asked.wait)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "run_coroutine_threadsafe", submit_before_a_reset)
        assert proxy.half_close(Direction.TO_SERVER) == 0
    client.settimeout(10)
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
    client.close()
    proxy.close()
    thread.close()
