"""Proxies that share a port on loopback: one socket for all, and each refuses by itself."""

import os
import resource
import select
import socket
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from toolkit.faults.proxies import Proxies
from toolkit.faults.proxy import FaultProxy

PROXIES = 40
ROOM = 5
"""Descriptors that a proxy may still open: an odd number, so that one is left to accept with but none to dial."""


@pytest.fixture
def proxies(proxies: Proxies) -> Proxies:
    """Proxies that share ports."""
    proxies.shares_ports = True
    return proxies


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def exchanges(client: socket.socket, accepted: socket.socket) -> bool:
    client.sendall(b"ceph v2\n\x10\0" + bytes(16))
    return accepted.recv(8) == b"ceph v2\n"


def dial(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), timeout=10)


def of_one_connector(proxies: Proxies, listener: socket.socket) -> list[FaultProxy]:
    return [proxies.open("a", f"n{number}", listener.getsockname()) for number in range(PROXIES)]


def test_proxies_of_a_connector_share_one_socket(proxies: Proxies, listener: socket.socket) -> None:
    of_one_connector(proxies, listener)
    before = open_descriptors()
    others = [proxies.open("b", f"n{number}", listener.getsockname()) for number in range(PROXIES)]
    assert open_descriptors() - before == 2
    assert len({proxy.port for proxy in others}) == 1
    assert len({proxy.host for proxy in others}) == PROXIES
    with dial(others[3]) as client, listener.accept()[0] as accepted:
        assert exchanges(client, accepted)
        assert others[3].cut() == 1
        assert others[4].cut() == 0


def test_address_that_refuses_leaves_the_others_open(proxies: Proxies, listener: socket.socket) -> None:
    first, second, third, *_ = of_one_connector(proxies, listener)
    with dial(first) as client, listener.accept()[0] as accepted:
        first.refuse()
        second.refuse()
        for refusing in (first, second):
            with pytest.raises(ConnectionRefusedError):
                dial(refusing)
        assert exchanges(client, accepted)
        with dial(third) as other, listener.accept()[0] as arrived:
            assert exchanges(other, arrived)
    new = proxies.open("a", "new", listener.getsockname())
    with dial(new) as client, listener.accept()[0] as accepted:
        assert exchanges(client, accepted)
    before = open_descriptors()
    first.heal()
    with pytest.raises(ConnectionRefusedError):
        dial(second)
    second.heal()
    assert open_descriptors() < before
    for healed in (first, second, third, new):
        with dial(healed) as client, listener.accept()[0] as accepted:
            assert exchanges(client, accepted)


@pytest.mark.parametrize("shares_ports", [False, True], ids=["own", "shared"])
def test_connections_wait_for_descriptors_without_a_word(
    *, shares_ports: bool, proxies: Proxies, listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    proxies.shares_ports = shares_ports
    proxy = proxies.open("a", "b", listener.getsockname())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as closing:
        clients = [closing.enter_context(socket.socket()) for _ in range(4 * ROOM)]
        null = closing.enter_context(Path(os.devnull).open())
        highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        while (filled := os.dup(null.fileno())) < highest:  # earlier tests left gaps
            closing.callback(os.close, filled)
        closing.callback(os.close, filled)
        resource.setrlimit(resource.RLIMIT_NOFILE, (filled + 1 + ROOM, limits[1]))
        try:
            for client in clients:
                client.connect((proxy.host, proxy.port))
            # Those that the proxy accepts are reset, because it cannot dial for them.
            assert select.select(clients, [], [], 30)[0]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for client in clients:
            with suppress(OSError):  # it was reset
                client.sendall(b"ceph v2\n\x10\0" + bytes(16))
        listener.settimeout(30)
        accepted = closing.enter_context(listener.accept()[0])
        accepted.settimeout(30)
        assert accepted.recv(8) == b"ceph v2\n"
    assert caplog.records == []


def test_closed_proxies_release_the_port(proxies: Proxies, listener: socket.socket) -> None:
    opened = of_one_connector(proxies, listener)
    opened[0].close()
    with dial(opened[1]) as client:
        listener.accept()[0].close()
        assert client.recv(1) == b""
    with dial(opened[0]) as client:
        assert client.recv(1) == b""
    proxies.drop("a")
    with pytest.raises(ConnectionRefusedError):
        dial(opened[1])
    again = proxies.open("a", "n0", listener.getsockname())
    with dial(again) as client, listener.accept()[0] as accepted:
        assert exchanges(client, accepted)


def test_shared_port_is_closed_to_other_interfaces(proxies: Proxies, listener: socket.socket) -> None:
    port = of_one_connector(proxies, listener)[0].port
    own = next(iter(address for address in addresses() if not address.startswith("127.")), None)
    if own is None:
        pytest.skip("this machine has only loopback")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((own, port), timeout=10)


def addresses() -> list[str]:
    """The machine's own IPv4 addresses."""
    lines = Path("/proc/net/fib_trie").read_text().splitlines()
    return [line.split()[1] for line, kind in pairwise(lines) if "|--" in line and "/32 host LOCAL" in kind]
