"""The proxies between nodes: one for each way and port, whichever of the nodes dials."""

import socket
from contextlib import ExitStack

import pytest

from toolkit.dissect.direction import Direction
from toolkit.faults.proxies import Proxies
from toolkit.faults.proxy import FaultProxy


def test_each_direction_has_one_proxy_for_each_port(proxies: Proxies) -> None:
    first = proxies.open("a", "b", ("127.0.0.1", 6800))
    second = proxies.open("a", "b", ("127.0.0.1", 6801))
    assert proxies.open("a", "b", ("127.0.0.1", 6800)) is first
    assert proxies.on("a", "b") == [first, second]
    assert proxies.on("a", "b", 6801) == [second]
    assert proxies.on("b", "a") == []


def test_lanes_include_links_dialled_by_either_node(proxies: Proxies) -> None:
    there = proxies.open("a", "b", ("127.0.0.1", 6800))
    back = proxies.open("b", "a", ("127.0.0.1", 6800))
    assert list(proxies.lanes("a", "b")) == [(there, Direction.TO_SERVER), (back, Direction.TO_CLIENT)]
    assert list(proxies.lanes("a", "b", 6800)) == [(there, Direction.TO_SERVER)]


def test_connections_are_cut_regardless_of_the_dialler(proxies: Proxies, listener: socket.socket) -> None:
    ways = [("a", "b"), ("b", "a")]
    with ExitStack() as streams:
        dialled = []
        for way in ways:
            proxy = proxies.open(*way, listener.getsockname())
            dialled.append(streams.enter_context(socket.create_connection((proxy.host, proxy.port), 5)))
            streams.enter_context(listener.accept()[0])
        assert proxies.cut("a", "b") == 2
        for stream in dialled:
            with pytest.raises(ConnectionResetError):
                stream.recv(1)


def test_a_proxy_for_all_ports_closes_with_the_others(proxies: Proxies, listener: socket.socket) -> None:
    kept = FaultProxy("a", "b", listener.getsockname())
    proxies.keep(kept)
    assert proxies.on("a", "b") == [kept]
    assert proxies.on("a", "b", 6800) == []
    proxies.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((kept.host, kept.port), 5)
