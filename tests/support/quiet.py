"""A network of a test's own, without other traffic."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_CLONE_NEWNET = 0x40000000
_OWN = Path("/proc/thread-self/ns/net")
_LOOPBACK = 1


@pytest.fixture
def own_network() -> Iterator[None]:
    """Move this thread, and what it starts, to a new network namespace with a loopback interface.

    Captures of ``lo`` then have the packets of the test, without those of other tests. Without the privilege the
    thread stays in its namespace.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with _OWN.open() as before:
        if os.geteuid() or libc.unshare(_CLONE_NEWNET):
            yield
            return
        try:
            from pyroute2 import IPRoute

            with IPRoute() as network:
                network.link("set", index=_LOOPBACK, state="up")
            yield
        finally:
            assert libc.setns(before.fileno(), _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
