"""Network namespaces."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.machine import new_lease as new_lease  # noqa: PLC0414 - a fixture
from toolkit.machine.changes import Namespace
from toolkit.machine.leases import Lease
from toolkit.network import namespaces

pytestmark = pytest.mark.needs("netns")


def readlink(path: str) -> str:
    return str(Path(path).readlink())


@pytest.fixture
def namespace(new_lease: Callable[[], Lease]) -> Path:
    lease = new_lease()
    name = lease.label.namespace("a")
    lease.journal.note(Namespace(name))
    return namespaces.create(name)


def test_sockets_of_a_namespace_are_not_of_this_one(namespace: Path) -> None:
    here = readlink("/proc/self/ns/net")
    with namespaces.inside(namespace, lambda: socket.create_server(("127.0.0.1", 0))) as server:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.getsockname(), 1)
        namespaces.inside(namespace, lambda: socket.create_connection(server.getsockname(), 1)).close()
    assert readlink("/proc/self/ns/net") == here
    assert namespaces.inside(namespace, lambda: readlink("/proc/thread-self/ns/net")) != here


def test_inside_raises_the_exception_of_the_function(namespace: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        namespaces.inside(namespace, lambda: 1 // 0)


def test_create_refuses_an_existing_namespace(namespace: Path) -> None:
    with pytest.raises(LocalError, match=f"namespace {namespace.name} exists already, made by another program"):
        namespaces.create(namespace.name)


def test_inside_refuses_a_missing_namespace(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="gone: No such file"):
        namespaces.inside(tmp_path / "gone", lambda: None)
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="file: Invalid argument"):
        namespaces.inside(tmp_path / "file", lambda: None)


def test_check_leaves_no_interface() -> None:
    before = sorted(Path("/sys/class/net").iterdir())
    namespaces.check()
    assert sorted(Path("/sys/class/net").iterdir()) == before


def test_missing_privileges_are_an_error_with_the_remedy() -> None:
    script = "from toolkit.network import namespaces; namespaces.check()"
    without = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run([*without, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    *_, words = done.stderr.strip().splitlines()
    assert words.startswith("toolkit.errors.Unsupported: netns: no namespaces for this process")
    assert "--cap-add SYS_ADMIN" in words
