"""Ports that are reserved for another process."""

import socket

import pytest

from toolkit.machine.ports import Ports, reserved_socket


def test_a_reserved_port_is_its_owners_alone_to_listen_on() -> None:
    with reserved_socket("127.0.0.1") as reserved, socket.socket() as owner:
        port = reserved.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            reserved_socket("127.0.0.1", port)
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        owner.bind(("127.0.0.1", port))
        owner.listen()
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_no_two_are_given_the_same_port() -> None:
    kept = [reserved_socket("127.0.0.1") for _ in range(300)]
    try:
        assert len({one.getsockname()[1] for one in kept}) == len(kept)
    finally:
        for one in kept:
            one.close()


def test_ports_are_ascending_and_released_by_close() -> None:
    ports = Ports()
    given = [ports.reserve(host) for host in ("127.0.0.1", "127.0.0.1", "::1", "127.0.0.1")]
    assert given == sorted(set(given))
    with pytest.raises(OSError, match="in use"):
        reserved_socket("127.0.0.1", given[0])
    ports.close()
    reserved_socket("127.0.0.1", given[0]).close()
