"""Redirected dials: both ends see the other's address, and a proxy between them every byte."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.machine import new_lease as new_lease  # noqa: PLC0414 - a fixture
from toolkit.cluster.backends.base import Host, HostWish, NetworkWish
from toolkit.cluster.backends.netns import NetnsBackend
from toolkit.errors import Unsupported
from toolkit.faults.proxy import FaultProxy, Watcher
from toolkit.machine.leases import Lease
from toolkit.network.redirect import redirect, way_in

pytestmark = pytest.mark.needs("netns", "nft")

PORTS = (6800, 6804)


@pytest.fixture(params=["10.3.0.0/24", "fd00:3::/64"])
def hosts(request: pytest.FixtureRequest, new_lease: Callable[[], Lease]) -> Iterator[NetnsBackend]:
    with ExitStack() as undo:
        backend = NetnsBackend(new_lease(), lambda _: None)
        undo.callback(backend.close)
        backend.open([NetworkWish("public", request.param)], [HostWish(name, ("public",)) for name in "abc"])
        yield backend


class Passed(Watcher):
    """Counts links."""

    def __init__(self) -> None:
        self.links = 0

    def link_opened(self, link: int, source: str) -> None:
        self.links += 1


def listening(host: Host, port: int) -> socket.socket:
    address = host.addresses["public"]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return host.inside(lambda: socket.create_server((address, port), family=family))


def dialled(host: Host, address: str, port: int) -> socket.socket:
    return host.inside(lambda: socket.create_connection((address, port), 5))


def test_redirect_sends_dials_to_any_port_through_the_proxy(hosts: NetnsBackend) -> None:
    a, b, c = (hosts.hosts[name] for name in "abc")
    address = b.addresses["public"]
    assert a.namespace is not None
    with ExitStack() as undo:
        passed = Passed()
        proxy = undo.enter_context(
            FaultProxy("a", "b", None, host=way_in([address]), inside=a.inside, watcher=passed)
        )
        redirect(a.namespace, [address], proxy.port)
        for port in PORTS:
            server = undo.enter_context(listening(b, port))
            one = undo.enter_context(dialled(a, address, port))
            other, source = server.accept()
            undo.enter_context(other)
            assert (one.getpeername()[:2], source[0]) == ((address, port), a.addresses["public"])
            one.sendall(b"to b")
            assert other.recv(100) == b"to b"
            other.sendall(b"to a")
            assert one.recv(100) == b"to a"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                one.recv(1)
        undo.enter_context(dialled(c, address, PORTS[0]))
    assert passed.links == len(PORTS)


def test_addresses_of_both_families_are_refused() -> None:
    with pytest.raises(Unsupported, match="not of both"):
        way_in(["10.0.0.1", "fd00::1"])
