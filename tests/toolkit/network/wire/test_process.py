"""The wire's process with taps as the hosts' own interfaces."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.machine import new_lease  # noqa: F401 - a fixture
from toolkit.machine.changes import Namespace
from toolkit.machine.leases import Lease
from toolkit.network.namespaces import within
from toolkit.network.state import LinkState
from toolkit.network.wire.process import Attachment, Wire

OWN = Path("/proc/thread-self/ns/net")
KEEPER = """
import signal, sys
from pathlib import Path
from toolkit.network.wire.process import Attachment, Wire
wire = Wire()
wire.attach(Attachment("a", "public", Path(sys.argv[1])))
print(wire.pid, flush=True)
signal.pause()
"""

pytestmark = pytest.mark.needs("netns", "tun")


@pytest.fixture
def namespace(new_lease: Callable[[], Lease]) -> Path:  # noqa: F811
    from pyroute2 import netns

    lease = new_lease()
    name = lease.label.namespace("a")
    lease.journal.note(Namespace(name))
    netns.create(name)
    return Path("/run/netns") / name


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as wire:
        yield wire


def interfaces(namespace: Path) -> dict[str, tuple[str, int, str]]:
    """Address, MTU and state by name, as the kernel reports them."""
    from pyroute2 import IPRoute

    with within(namespace), IPRoute() as route:
        return {
            link.get_attr("IFLA_IFNAME"): (
                link.get_attr("IFLA_ADDRESS"),
                link.get_attr("IFLA_MTU"),
                link.get_attr("IFLA_OPERSTATE"),
            )
            for link in route.get_links()
        }


def test_attach_creates_an_interface_that_is_up(wire: Wire, namespace: Path) -> None:
    (mac,) = wire.attach(Attachment("a", "public", namespace, "eth0", 9000))
    assert interfaces(namespace)["eth0"][:2] == (mac, 9000)


def test_interface_is_removed_by_detach(wire: Wire, namespace: Path) -> None:
    wire.attach(Attachment("a", "public", namespace), Attachment("a", "cluster", namespace, "eth1"))
    wire.detach("a")
    assert set(interfaces(namespace)) == {"lo"}


def test_interface_is_removed_with_the_wire(namespace: Path) -> None:
    with Wire() as wire:
        wire.attach(Attachment("a", "public", namespace))
    assert set(interfaces(namespace)) == {"lo"}


def test_interface_is_removed_when_the_wire_is_killed(namespace: Path) -> None:
    with Wire() as wire:
        wire.attach(Attachment("a", "public", namespace))
        os.kill(wire.pid, signal.SIGKILL)
        with pytest.raises(LocalError, match="the wire has ended"):
            wire.statistics()
    assert set(interfaces(namespace)) == {"lo"}


def test_states_of_both_directions_are_kept(wire: Wire, namespace: Path) -> None:
    wire.attach(Attachment("a", "public", namespace), Attachment("b", "public", namespace, "eth1"))
    wire.set({("a", "b"): LinkState(delay_ms=5), ("b", "a"): LinkState.from_text("loss 5%, seed 3")})
    assert wire.get("a", "b") == LinkState(delay_ms=5)
    assert wire.get("b", "a") == LinkState.from_text("loss 5%, seed 3")
    assert {(one["sender"], one["receiver"], one["network"]) for one in wire.statistics()} == {
        ("a", "b", "public"),
        ("b", "a", "public"),
    }


def test_failures_are_reported(wire: Wire, namespace: Path) -> None:
    with pytest.raises(LocalError, match="namespace /run/netns/none-such: No such file"):
        wire.attach(Attachment("a", "public", Path("/run/netns/none-such")))
    wire.attach(Attachment("a", "public", namespace))
    with pytest.raises(LocalError, match=r"tap eth0 in .*: Device or resource busy"):
        wire.attach(Attachment("b", "public", namespace))
    with pytest.raises(LocalError, match="a is on public already"):
        wire.attach(Attachment("a", "public", namespace, "eth7"))
    assert set(interfaces(namespace)) == {"lo", "eth0"}
    with pytest.raises(LocalError, match="no link from 'a' to 'x'"):
        wire.get("a", "x")


def test_wire_ends_with_its_parent(namespace: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KEEPER, str(namespace)], stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        assert "eth0" in interfaces(namespace)
        keeper.kill()
    deadline_s = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert set(interfaces(namespace)) == {"lo"}


def test_a_thread_is_back_in_its_own_namespace(namespace: Path) -> None:
    before = OWN.readlink()
    with within(namespace):
        assert OWN.readlink() != before
    with pytest.raises(RuntimeError), within(namespace):
        raise RuntimeError
    with pytest.raises(LocalError, match="No such file"), within(Path("/run/netns/none-such")):
        pass
    assert OWN.readlink() == before
