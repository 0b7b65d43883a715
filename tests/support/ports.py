"""Ports for tests that hear what passes on loopback."""

import contextlib
import socket


def low_port(host: str = "127.0.0.1") -> int:
    """A free port below those that clients get."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in range(20_000, 30_000):
        with contextlib.suppress(OSError), socket.create_server((host, port), family=family):
            return port
    raise AssertionError("no port is free")
