"""A NAT on the way of what is dialled: other source ports, which it can forget."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from messenger.errors import LocalError
from tests.support.machine import new_lease as new_lease  # noqa: PLC0414 - a fixture
from tests.toolkit.network.test_namespace_faults import Net, receive_one
from tests.toolkit.network.test_namespace_faults import undo as undo  # noqa: PLC0414 - a fixture
from toolkit.machine.leases import Lease

pytestmark = pytest.mark.needs("netns", "nft")

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["10.3.0.0/24", "fd00:3::/64"])
def net(request: pytest.FixtureRequest, new_lease: Callable[[], Lease], undo: ExitStack) -> Net:
    return Net(new_lease(), undo, subnet=request.param)


def is_translated(ends: Ends) -> bool:
    """True if the acceptor sees another port than the connector has."""
    dialled, accepted = ends
    return dialled.getsockname()[1] != accepted.getpeername()[1]


def talk(*ends: socket.socket) -> None:
    for one, other in (ends, ends[::-1]):
        one.sendall(b"x")
        assert other.recv(1) == b"x"


def test_nat_translates_new_connections_only(net: Net) -> None:
    before = net.connect()
    net.faults.nat("a", "b")
    for ends, translated in ((before, False), (net.connect(), True), (net.connect("b", "a"), False)):
        talk(*ends)
        assert is_translated(ends) == translated
    assert not is_translated(net.connect("a", "c"))
    net.faults.nat("a", "b", translated=False)
    assert not is_translated(net.connect())


@pytest.mark.parametrize("writer", [0, 1])
def test_write_after_expiry_of_the_nat_entry_is_reset(net: Net, writer: int) -> None:
    before = net.connect()
    net.faults.nat("a", "b")
    ends, more = net.connect(), net.connect()
    assert net.faults.nat_flush("a", "b") == 2
    ends[writer].sendall(b"lost")
    with pytest.raises(ConnectionResetError):
        ends[writer].recv(1)
    assert receive_one(ends[1 - writer]) is None
    more[writer].sendall(b"lost")
    with pytest.raises(ConnectionResetError):
        more[writer].recv(1)
    talk(*before)
    after = net.connect()
    talk(*after)
    assert is_translated(after)
    # it forgets again: what was reset or closed is no connection any more
    for end in net.connect():
        end.close()
    assert net.faults.nat_flush("a", "b") == 1


def test_silent_nat_flush_drops_packets_of_old_connections(net: Net) -> None:
    net.faults.nat("a", "b")
    ends = net.connect()
    assert net.faults.nat_flush("a", "b", silent=True) == 1
    for end in ends:
        end.sendall(b"lost")
    assert [receive_one(end) for end in ends] == [None, None]
    talk(*net.connect())


def test_heal_removes_nats(net: Net) -> None:
    net.faults.nat("a", "b")
    net.faults.heal()
    assert not is_translated(net.connect())
    with pytest.raises(LocalError, match="no NAT is on the way from a to b: nat a b"):
        net.faults.nat_flush("a", "b")
