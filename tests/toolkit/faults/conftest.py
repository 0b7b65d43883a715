"""Proxies of a test, and a server behind them."""

import socket
from collections.abc import Iterator

import pytest

from toolkit.faults.proxies import Proxies


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    """Proxies that are closed at the end."""
    proxies = Proxies()
    yield proxies
    proxies.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket of loopback, which waits for ten seconds at most."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening
