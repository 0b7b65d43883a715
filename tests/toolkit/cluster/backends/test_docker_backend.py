"""The docker backend: what it makes, what it refuses, and that nothing of it stays."""

import time
import uuid

import pytest

from messenger.errors import LocalError
from tests.support.docker import docker_objects, opened
from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.images import node
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import connected
from toolkit.machine.labels import DOCKER_LABEL
from toolkit.machine.leases import Lease
from toolkit.network.state import LinkState

PUBLIC, CLUSTER = NetworkWish("public"), NetworkWish("cluster", mtu=1400)
HOSTS = [HostWish("a", ("public", "cluster")), HostWish("b", ("public",))]


def test_missing_docker_is_one_error_line(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(Unsupported, match=r"Docker at unix:///nowhere/docker.sock does not run"):
        backend_named("docker").check([PUBLIC], HOSTS[1:])


@pytest.mark.parametrize(
    ("network", "host", "words"),
    [
        (NetworkWish("public", "10.300.0.0/24"), HOSTS[1], "'10.300.0.0/24' is no subnet"),
        (NetworkWish("other"), HOSTS[1], "no network 'public'"),
        (NetworkWish("public", "10.99.0.0/30"), HostWish("a", ("public",)), None),
        (NetworkWish("public", "10.99.0.0/31"), HOSTS[1], "no address left for Docker's own end"),
    ],
)
def test_impossible_addresses_are_an_error_before_any_request(monkeypatch, network, host, words):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(LocalError, match=words or "does not run"):
        backend_named("docker").check([network], [host])


@pytest.mark.needs("docker")
class TestWithDocker:
    @pytest.fixture(autouse=True)
    def image(self):
        node.build(announce=lambda _: None)

    def test_missing_part_is_an_error_with_the_command_for_it(self, monkeypatch):
        wish = HostWish("a", ("public",), image="ceph:nautilus")
        monkeypatch.setattr("toolkit.cluster.images.ceph.tag", lambda _: "msgrlab/ceph:none")
        with pytest.raises(Unsupported, match="no image msgrlab/ceph:none: msgrlab images build ceph:nautilus"):
            backend_named("docker").check([PUBLIC], [wish])
        with pytest.raises(LocalError, match="no image 'ceph:quincy'"):
            backend_named("docker").check([PUBLIC], [HostWish("a", ("public",), image="ceph:quincy")])

    def test_backend_creates_the_requested_hosts_and_networks(self):
        with opened([PUBLIC, CLUSTER], HOSTS) as backend:
            a, b = backend.hosts["a"], backend.hosts["b"]
            assert list(a.addresses) == ["public", "cluster"]
            assert a.addresses["public"].rpartition(".")[0] == b.addresses["public"].rpartition(".")[0]
            assert a.run("hostname") == "a\n"
            shown = a.run("cat", "/sys/class/net/eth0/mtu", "/sys/class/net/eth1/mtu").split()
            assert sorted(shown) == ["1400", "1500"]
            hello = "import socket, sys; s = socket.create_server((sys.argv[1], 80)); print(flush=True)"
            server = a.start(
                ["python3", "-c", hello + "; s.accept()[0].send(b'hello')", a.addresses["public"]], piped=True
            )
            server.stdout.readline()
            ask = "import socket, sys; print(socket.create_connection((sys.argv[1], 80)).recv(9))"
            assert b.run("python3", "-c", ask, a.addresses["public"]) == "b'hello'\n"
            server.stdin.close()
            server.stdout.close()

    def test_containers_have_no_capabilities(self):
        with opened([PUBLIC], HOSTS[1:]) as backend:
            status = backend.hosts["b"].run("cat", "/proc/self/status")
            rights = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            assert int(rights["CapEff"], 16) == int(rights["CapBnd"], 16) == 0
            assert rights["NoNewPrivs"] == "1"
            with connected() as engine:
                mine = {"label": f"{DOCKER_LABEL}={backend.lease.label}"}
                [container], [network] = engine.containers.list(filters=mine), engine.networks.list(filters=mine)
                config = container.attrs["HostConfig"]
            assert network.attrs["Internal"]
            assert config["RestartPolicy"]["Name"] in {"no", ""}
            assert config["PidsLimit"] > 0
            assert not config["Privileged"]

    def test_subnet_in_use_is_an_error_with_its_owner(self):
        taken = "10.99.7.0/24"
        with opened([NetworkWish("public", taken)], HOSTS[1:]) as backend:
            assert backend.hosts["b"].addresses == {"public": "10.99.7.1"}
            with pytest.raises(
                LocalError, match=r"network public: subnet 10.99.0.0/16 is in use: 10.99.7.0/24 by"
            ):
                backend_named("docker").check([NetworkWish("public", "10.99.0.0/16")], HOSTS[1:])
            # another cluster finds its own
            with opened([PUBLIC], HOSTS[1:]) as other:
                assert other.hosts["b"].addresses != backend.hosts["b"].addresses

    def test_backend_assigns_the_requested_addresses(self):
        wish = HostWish("a", ("public",), addresses={"public": "10.99.8.254"})
        with opened([NetworkWish("public", "10.99.8.0/24")], [wish, HostWish("b", ("public",))]) as backend:
            assert [host.addresses["public"] for host in backend.hosts.values()] == ["10.99.8.254", "10.99.8.1"]

    def test_networks_of_ipv6(self):
        with opened([NetworkWish("public", "fd00:99::/64")], HOSTS[1:]) as backend:
            assert backend.hosts["b"].addresses == {"public": "fd00:99::1"}
            bind = "import socket; socket.create_server(('fd00:99::1', 1), family=socket.AF_INET6); print('bound')"
            assert backend.hosts["b"].run("python3", "-c", bind) == "bound\n"

    def test_journal_removes_containers_after_a_crash(self):
        lease = Lease.take(f"t{uuid.uuid4().hex[:12]}")
        backend = backend_named("docker")(lease, lambda _: None)
        backend.open([PUBLIC], HOSTS[1:])
        assert len(docker_objects(lease)) == 2
        began_s = time.monotonic()
        assert Lease.find(lease.label.name).journal.undo() == []
        assert time.monotonic() - began_s < 10
        assert docker_objects(lease) == []
        assert not lease.directory.exists()

    def test_backend_removes_everything_after_a_failed_open(self, monkeypatch):
        lease = Lease.take(f"t{uuid.uuid4().hex[:12]}")
        backend = backend_named("docker")(lease, lambda _: None)
        monkeypatch.setattr(node, "build", lambda *_, **__: "msgrlab/node:none")
        with pytest.raises(LocalError, match="Docker: No such image: msgrlab/node:none"):
            backend.open([PUBLIC], HOSTS[1:])
        assert len(docker_objects(lease)) == 1
        backend.close()
        assert docker_objects(lease) == []
        assert lease.journal.undo() == []


@pytest.mark.needs("docker", "netns")
def test_the_network_between_containers_breaks_and_heals():
    node.build(announce=lambda _: None)
    with opened([PUBLIC], [HostWish("a", ("public",)), HOSTS[1]]) as backend:
        a, b = backend.hosts.values()
        ask = (
            "import socket, sys\n"
            "try: socket.create_connection((sys.argv[1], 80), 0.5)\n"
            "except OSError as error: print(type(error).__name__)"
        )

        def outcome():
            return b.run("python3", "-c", ask, a.addresses["public"]).strip()

        assert outcome() == "ConnectionRefusedError"
        backend.network.block("b", "a")
        assert outcome() == "TimeoutError"
        backend.network.heal()
        assert outcome() == "ConnectionRefusedError"
        slow = LinkState(delay_ms=700)
        backend.network.set_link("b", "a", slow)
        assert backend.network.link("b", "a").delay_ms == slow.delay_ms
        assert outcome() == "TimeoutError"
        backend.network.heal()
        assert outcome() == "ConnectionRefusedError"


@pytest.mark.needs("docker", "netns")
def test_faults_on_remote_containers_are_unsupported(monkeypatch):
    with opened([PUBLIC], [HostWish("a", ("public",)), HOSTS[1]]) as backend:
        for host in backend.hosts.values():
            monkeypatch.setattr(host, "namespace", None)
        with pytest.raises(Unsupported, match="no network namespace on this machine"):
            backend.network.block("a", "b")


class TestSwarm:
    def test_swarm_places_are_docker_contexts(self, monkeypatch, tmp_path):
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.setenv("MSGRLAB_SWARM", "one, two")
        kind = backend_named("swarm")
        assert kind.places() == ["context://one", "context://two"]
        with pytest.raises(LocalError, match="no Docker context 'one'"):
            kind.check([PUBLIC], HOSTS[1:])
        monkeypatch.delenv("MSGRLAB_SWARM")
        monkeypatch.setenv("DOCKER_HOST", "tcp://here:1")
        assert kind.places() == ["tcp://here:1"]

    @pytest.mark.parametrize(
        ("swarm", "words"),
        [
            ({"LocalNodeState": "inactive"}, "is in no swarm: docker swarm init, or docker swarm join"),
            ({"LocalNodeState": "active", "ControlAvailable": False}, "is no manager of a swarm: only"),
        ],
    )
    @pytest.mark.needs("docker")
    def test_engine_without_swarm_is_an_error(self, monkeypatch, swarm, words):
        node.build(announce=lambda _: None)
        monkeypatch.setattr("docker.DockerClient.info", lambda _: {"Swarm": swarm})
        with pytest.raises(Unsupported, match=words):
            backend_named("swarm").check([PUBLIC], HOSTS[1:])

    @pytest.mark.needs("swarm")
    def test_hosts_of_a_swarm_connect_over_an_overlay(self):
        ask = "import socket, sys; socket.create_connection((sys.argv[1], 80), 5)"
        with opened([PUBLIC], [HostWish("a", ("public",)), HOSTS[1]], "swarm") as backend:
            a, b = backend.hosts.values()
            with connected() as engine:
                [network] = engine.networks.list(filters={"label": f"{DOCKER_LABEL}={backend.lease.label}"})
                assert (network.attrs["Driver"], network.attrs["Internal"]) == ("overlay", True)
            assert b.run("cat", "/sys/class/net/eth0/mtu") == "1450\n"
            with pytest.raises(LocalError, match="ConnectionRefusedError"):
                b.run("python3", "-c", ask, a.addresses["public"])
            serve = "import socket; s = socket.create_server(('', 80)); print(flush=True); s.accept()"
            server = a.start(["python3", "-c", serve], piped=True)
            server.stdout.readline()
            b.run("python3", "-c", ask, a.addresses["public"])
            assert server.wait(20) == 0
            server.stdin.close()
            server.stdout.close()

    @pytest.mark.needs("swarm", "nft")
    def test_links_of_a_swarm_are_impaired_one_by_one(self, monkeypatch):
        both = [NetworkWish("public"), NetworkWish("cluster")]
        with opened(both, [HostWish(name, ("public", "cluster")) for name in "abc"], "swarm") as backend:
            network, (a, b, c) = backend.network, backend.hosts.values()
            network.set_link("a", "b", LinkState(delay_ms=200))
            network.set_link("b", "a", LinkState(delay_ms=100))
            assert [refusal_ms(a, b, name) > 300 for name in ("public", "cluster")] == [True, True]
            assert refusal_ms(a, c, "public") < 200
            assert network.link("a", "b") == LinkState(delay_ms=200)
            network.heal()
            assert refusal_ms(a, b, "public") < 200
            monkeypatch.setattr(c, "namespace", None)
            with pytest.raises(Unsupported, match="node c has no network namespace on this machine"):
                network.set_link("a", "c", LinkState(delay_ms=1))


def refusal_ms(one, other, network):
    """Milliseconds until a host learns that no program of another one listens at a port."""
    ask = """
import socket, sys, time
began_s = time.monotonic()
socket.socket().connect_ex((sys.argv[1], 81))
print((time.monotonic() - began_s) * 1000)
"""
    return float(one.run("python3", "-c", ask, other.addresses[network]))


@pytest.mark.needs("docker", "netns")
@pytest.mark.parametrize("can_enter", [True, False], ids=["in namespaces", "by programs"])
def test_backend_refuses_containers_separated_by_a_firewall(monkeypatch, can_enter):
    kind = backend_named("docker")
    add = kind.add

    def add_behind_a_firewall(backend, *wishes):
        add(backend, *wishes)
        backend.network.block("a", "b")
        if not can_enter:
            for host in backend.hosts.values():
                host.namespace = None

    monkeypatch.setattr(kind, "add", add_behind_a_firewall)
    monkeypatch.setattr("toolkit.cluster.backends.docker.reachability._TIMEOUT_S", 0.5)
    words = "network public: a and b do not reach each other: this machine's firewall drops what"
    with pytest.raises(Unsupported, match=words), opened([PUBLIC], [HostWish("a", ("public",)), HOSTS[1]]):
        pass
