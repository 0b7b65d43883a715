"""The process backend: hosts that are this machine, and what proxies can do to the network between them."""

import signal
import socket
import time
from collections.abc import Iterator

import pytest

from messenger.errors import LocalError
from tests.support.clusters import processes_of, state
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.process import ProcessBackend, ProcessHost
from toolkit.errors import Unsupported
from toolkit.machine.leases import Lease
from toolkit.network.state import LinkState, RandomLoss

__all__ = ["state"]

BANNER = b"ceph v2\n\x10\x00" + bytes(16)


@pytest.fixture
def lease(state: object) -> Iterator[Lease]:
    lease = Lease.take("hosts")
    yield lease
    assert lease.journal.undo() == []


@pytest.fixture
def backend(lease: Lease) -> Iterator[ProcessBackend]:
    backend = ProcessBackend(lease, lambda _words: None)
    backend.open([NetworkWish("public")], [HostWish(name, ("public",)) for name in "ab"])
    yield backend
    backend.close()


def host(backend: ProcessBackend, name: str = "a") -> ProcessHost:
    found = backend.hosts[name]
    assert isinstance(found, ProcessHost)
    return found


def test_programs_run_in_the_directory_with_the_label(backend: ProcessBackend, lease: Lease) -> None:
    a = host(backend)
    assert a.run("sh", "-c", "pwd; echo $MSGRLAB_CLUSTER; cat", stdin="words") == (
        f"{a.directory}\n{lease.label}\nwords"
    )
    program = a.start(["sh", "-c", "echo out; echo err >&2; sleep 60 & wait"], log="sh.log")
    assert program.poll() is None
    while len(found := processes_of(str(lease.label))) < 2:
        time.sleep(0.005)
    assert program.pid in found
    program.signal(signal.SIGKILL)
    assert program.wait(5) == -signal.SIGKILL
    while processes_of(str(lease.label)):  # what it has started ends, too
        time.sleep(0.005)
    assert a.read("sh.log") == b"out\nerr\n"
    assert program.errors() == "out\nerr\n"


def test_programs_on_pipes(backend: ProcessBackend) -> None:
    program = host(backend).start(["cat"], piped=True)
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"words\n")
    program.stdin.flush()
    assert program.stdout.readline() == b"words\n"
    with pytest.raises(TimeoutError):
        program.wait(0.01)
    program.stdin.close()
    assert program.wait(5) == 0
    program.stdout.close()


def test_files_and_ports(backend: ProcessBackend) -> None:
    a, b = host(backend), host(backend, "b")
    assert a.write("deep/file", b"words").read_bytes() == b"words"
    assert a.read("deep/file") == b"words"
    with pytest.raises(LocalError, match="a: nothing: No such file"):
        a.read("nothing")
    ports = [a.port(6800), a.port(6800), b.port(6800)]
    assert len(set(ports)) == 3
    with socket.socket() as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        mine.bind(("127.0.0.1", ports[0]))


@pytest.mark.parametrize("argv", [["nosuch"], ["sh", "-c", "echo no >&2; exit 3"]])
def test_failed_programs_report_their_cause(argv: list[str], backend: ProcessBackend) -> None:
    with pytest.raises(LocalError, match=r"^a: (nosuch: No such file|sh: no)"):
        host(backend).run(*argv)
    if argv == ["nosuch"]:
        with pytest.raises(LocalError, match="nosuch: No such file"):
            host(backend).start(argv)


@pytest.mark.parametrize(
    ("networks", "hosts", "complaint"),
    [
        ([NetworkWish("public", "10.77.0.0/24")], [], "subnet 10.77.0.0/24 on loopback: give --backend netns"),
    ],
)
def test_process_backend_refuses_unsupported_networks_and_hosts(
    networks: list[NetworkWish], hosts: list[HostWish], complaint: str
) -> None:
    with pytest.raises(Unsupported, match=complaint):
        ProcessBackend.check(networks, hosts)


class Line:
    """A connection from a to b through the backend's proxy."""

    def __init__(self, backend: ProcessBackend) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = backend.route("a", "b", self.listening.getsockname())
        self.a = socket.create_connection(self.address)
        self.b, _ = self.listening.accept()
        for end in (self.a, self.b):
            end.settimeout(10)

    def dial_again(self) -> None:
        """One more connection gets through."""
        with socket.create_connection(self.address, 10) as a:
            b, _ = self.listening.accept()
            with b:
                a.sendall(BANNER)
                assert b.recv(100) == BANNER

    def close(self) -> None:
        for each in (self.a, self.b, self.listening):
            each.close()


@pytest.fixture
def line(backend: ProcessBackend) -> Iterator[Line]:
    line = Line(backend)
    yield line
    line.close()


def quiet(end: socket.socket) -> bool:
    end.settimeout(0.1)
    try:
        return not end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(10)


def test_block_stops_one_direction(backend: ProcessBackend, line: Line) -> None:
    network = backend.network
    network.block("a", "b")
    assert (network.is_blocked("a", "b"), network.is_blocked("b", "a")) == (True, False)
    line.a.sendall(BANNER)
    line.b.sendall(BANNER)
    assert line.a.recv(100) == BANNER
    assert quiet(line.b)
    network.unblock("a", "b")
    assert line.b.recv(100) == BANNER


def test_links_are_read_back_and_healed(backend: ProcessBackend, line: Line) -> None:
    network = backend.network
    network.initial = {("b", "a"): LinkState(delay_ms=20)}
    slow = LinkState(delay_ms=150, jitter_ms=50, rate_bits_per_s=8_000_000)
    network.set_link("a", "b", slow)
    assert network.link("a", "b") == slow
    began_s = time.monotonic()
    line.a.sendall(BANNER)
    assert line.b.recv(100) == BANNER
    assert time.monotonic() - began_s >= 0.1
    network.heal()
    assert (network.link("a", "b"), network.link("b", "a").delay_ms) == (LinkState(), 20)


def test_resets_ends_and_refusals(backend: ProcessBackend, line: Line) -> None:
    network = backend.network
    line.a.sendall(BANNER)
    assert line.b.recv(100) == BANNER
    assert network.finish("a", "b") == 1
    assert line.b.recv(100) == b""
    assert network.finish("a", "b") == 0
    assert network.reset("b", "a") == 1
    with pytest.raises(ConnectionResetError):
        line.a.recv(100)
    network.refuse("a", "b")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(line.address)
    network.refuse("a", "b", refused=False)
    line.dial_again()


def test_refuse_may_apply_to_one_port(backend: ProcessBackend, line: Line) -> None:
    other = Line(backend)
    backend.network.refuse("a", "b", port=other.listening.getsockname()[1])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(other.address)
    line.dial_again()
    other.close()


@pytest.mark.parametrize(
    "packets",
    [
        LinkState(loss=RandomLoss(percent=1)),
        LinkState(duplicate_percent=1),
        LinkState(delay_ms=1, jitter_ms=1, distribution="normal"),
    ],
)
def test_packet_impairments_are_unsupported_on_loopback(packets: LinkState, backend: ProcessBackend) -> None:
    with pytest.raises(Unsupported, match="--backend netns"):
        backend.network.set_link("a", "b", packets)
    assert backend.network.link("a", "b") == LinkState()


def test_process_backend_refuses_unsupported_faults(backend: ProcessBackend) -> None:
    with pytest.raises(Unsupported, match="--backend netns"):
        backend.network.black_hole("a", "b", 1000)
    with pytest.raises(LocalError, match="no node 'c'; there are a, b"):
        backend.network.reset("a", "c")
