"""The netns backend: hosts in namespaces, programs on them, and nothing left when it is over."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.machine import new_lease as new_lease  # noqa: PLC0414 - a fixture
from tests.support.waiting import eventually
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.netns import NetnsBackend
from toolkit.machine.changes import Namespace, labelled_processes
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leaks import leftovers
from toolkit.machine.leases import Lease
from toolkit.network import namespaces

pytestmark = pytest.mark.needs("netns")

PUBLIC = [NetworkWish("public")]
TWO = [HostWish("a", ("public",)), HostWish("b", ("public",))]


@pytest.fixture
def backend(new_lease: Callable[[], Lease]) -> Iterator[NetnsBackend]:
    backend = NetnsBackend(new_lease(), lambda _: None)
    backend.open(PUBLIC, TWO)
    yield backend
    backend.close()


def readlink(path: str) -> str:
    return str(Path(path).readlink())


def talk(backend: NetnsBackend, a: str, b: str, network: str = "public") -> None:
    """Have a host dial another."""
    address = backend.hosts[b].addresses[network]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with ExitStack() as open_ones:
        server = backend.hosts[b].inside(lambda: socket.create_server((address, 0), family=family))
        open_ones.enter_context(server)
        where = server.getsockname()[:2]
        open_ones.enter_context(backend.hosts[a].inside(lambda: socket.create_connection(where, 5)))
        open_ones.enter_context(server.accept()[0])


def test_hosts_reach_each_other_and_have_names_and_addresses(backend: NetnsBackend) -> None:
    talk(backend, "a", "b")
    talk(backend, "b", "a")
    host = backend.hosts["b"]
    assert host.addresses == {"public": "10.77.0.2"}
    assert host.namespace == Path("/run/netns") / backend.lease.label.namespace("b")


def test_programs_run_on_their_hosts(backend: NetnsBackend) -> None:
    a, b = backend.hosts["a"], backend.hosts["b"]
    own = a.run("readlink", "/proc/self/ns/net").strip()
    assert own != readlink("/proc/self/ns/net")
    assert own != b.run("readlink", "/proc/self/ns/net").strip()
    assert b.run("cat", stdin="said") == "said"
    assert b.run("sh", "-c", f"echo ${PROCESS_VARIABLE}").strip() == str(backend.lease.label)
    program = a.start(["sh", "-c", "echo printed; echo wrong >&2; exec sleep 100"], log="program.log")
    eventually(lambda: b"wrong" in a.read("program.log"))
    assert readlink(f"/proc/{program.pid}/ns/net") == own
    assert list(labelled_processes(str(backend.lease.label))) == [program.pid]
    program.signal(signal.SIGTERM)
    assert program.wait(5) == -signal.SIGTERM
    assert a.read("program.log") == b"printed\nwrong\n"


def test_files_are_written_where_programs_find_them(backend: NetnsBackend) -> None:
    host = backend.hosts["a"]
    path = host.write("conf/ceph.conf", b"[global]\n")
    assert host.run("cat", str(path)) == "[global]\n"
    with pytest.raises(LocalError, match=r"nothing.*No such file"):
        host.read("nothing")


def test_failures_are_errors(backend: NetnsBackend) -> None:
    host = backend.hosts["a"]
    with pytest.raises(LocalError, match="a: sh: it is broken"):
        host.run("sh", "-c", "echo it is broken >&2; exit 3")
    with pytest.raises(LocalError, match="no-such-program: No such file"):
        host.run("no-such-program")
    with pytest.raises(LocalError, match="no-such-program: No such file"):
        host.start(["no-such-program"])
    with pytest.raises(LocalError, match=r"did not end within 0\.1 s"):
        host.run("sleep", "10", timeout_s=0.1)
    assert host.interactive(["sh", "-c", "exit 7"]) == 7


@pytest.mark.needs("iproute2")
def test_hosts_may_be_on_several_networks_of_any_kind(new_lease: Callable[[], Lease]) -> None:
    backend = NetnsBackend(new_lease(), lambda _: None)
    networks = [NetworkWish("public", "10.1.2.0/24", mtu=9000), NetworkWish("six", "fd00:7::/64")]
    hosts = [HostWish("a", ("public", "six")), HostWish("b", ("six", "public"), addresses={"public": "10.1.2.9"})]
    try:
        backend.open(networks, hosts)
        talk(backend, "a", "b", "public")
        talk(backend, "a", "b", "six")
        assert backend.hosts["b"].addresses["public"] == "10.1.2.9"
        assert "mtu 9000" in backend.hosts["a"].run("ip", "link", "show", "eth0")
        assert "mtu 9000" in backend.hosts["b"].run("ip", "link", "show", "eth1")
    finally:
        backend.close()


def test_clusters_with_the_same_addresses_do_not_meet(
    backend: NetnsBackend, new_lease: Callable[[], Lease]
) -> None:
    other = NetnsBackend(new_lease(), lambda _: None)
    try:
        other.open(PUBLIC, TWO)
        assert other.hosts["a"].addresses == backend.hosts["a"].addresses
        talk(other, "a", "b")
        talk(backend, "a", "b")
    finally:
        other.close()


def test_backend_adds_a_host(backend: NetnsBackend) -> None:
    backend.add(HostWish("late", ("public",)))
    assert backend.hosts["late"].addresses == {"public": "10.77.0.3"}
    talk(backend, "late", "a")
    talk(backend, "b", "late")


def test_repeated_open_and_close_leaks_no_descriptors_or_threads(new_lease: Callable[[], Lease]) -> None:
    counts = []
    for _ in range(8):
        lease = new_lease()
        backend = NetnsBackend(lease, lambda _: None)
        backend.open(PUBLIC, TWO)
        backend.hosts["a"].start(["sleep", "100"])
        backend.close()
        mounts = Path("/proc/self/mountinfo").read_text()
        assert f"netns/{lease.label.prefix}-" not in mounts  # before another cluster gets the number
        assert lease.journal.undo() == []
        counts.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))
        assert leftovers(lease) == []
    # what others have left behind in this process may end meanwhile
    growing = [(was, now) for was, now in pairwise(counts) if now[0] > was[0] or now[1] > was[1]]
    assert growing == []


def test_backend_keeps_a_namespace_of_another_program(new_lease: Callable[[], Lease]) -> None:
    lease = new_lease()
    name = lease.label.namespace("b")
    namespaces.create(name)
    try:
        backend = NetnsBackend(lease, lambda _: None)
        with pytest.raises(LocalError, match=f"namespace {name} exists already, made by another program"):
            backend.open(PUBLIC, TWO)
        backend.close()
        assert lease.journal.undo() == []
        assert [path.name for path in namespaces.DIRECTORY.glob(f"{lease.label.prefix}-*")] == [name]
    finally:
        Namespace(name).undo()


def test_journal_removes_everything_after_a_crash(new_lease: Callable[[], Lease]) -> None:
    lease = new_lease()
    backend = NetnsBackend(lease, lambda _: None)
    backend.open(PUBLIC, TWO)
    program = backend.hosts["b"].start(["sleep", "100"])
    assert len(leftovers(lease)) == 3 + 1 + 1  # namespaces, the process, the directory
    assert Lease.find(lease.label.name).journal.undo() == []
    assert leftovers(lease) == []
    assert program.wait(5) == -signal.SIGKILL


def test_unsupported_wish_is_an_error_before_any_change() -> None:
    with pytest.raises(LocalError, match="no network 'private'"):
        NetnsBackend.check(PUBLIC, [HostWish("a", ("private",))])
    NetnsBackend.check(PUBLIC, TWO)
