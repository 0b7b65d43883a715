"""Both sides dial at once on v1 (docs/protocol.md §3.4 step 7.7; V1-11)."""

import pytest

from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSY_CLIENT, STATELESS_SERVER, Policy
from messenger.session.session import SessionState
from tests.messenger.test_endpoint_races import (
    Race,
    by_addr,
    by_policy,
    cases,
    limited,
    surviving,
    unlimit,
)
from tests.support.network import Wire
from tests.support.node import A_ADDR
from tests.support.raw_v1 import B_V1_ADDR, meet, new_v1_node

V1 = {"protocol": Protocol.V1}


@by_policy
@by_addr
@pytest.mark.parametrize("auth", ["none", "cephx"])
def test_the_dial_from_the_lower_address_wins(policy: Policy, addr: str, auth: str) -> None:
    pair = Race(policy, addr=addr, auth=auth, **V1)
    pair.dial_both()
    pair.check()
    winner = pair.a if addr == A_ADDR else pair.b
    loser = pair.b if winner is pair.a else pair.a
    (wire,) = surviving(pair)
    assert wire.connector is winner
    assert (winner.kinds, loser.kinds) == ([EventKind.CONNECT], [EventKind.ACCEPT])


@by_policy
@by_addr
@pytest.mark.parametrize("wire_number", [1, 2])
@pytest.mark.parametrize("direction", [0, 1])
def test_race_settles_with_one_dial_held_up_at_any_point(
    policy: Policy, addr: str, wire_number: int, direction: int
) -> None:
    for position in range(0, 560, 9):
        pair = Race(policy, addr=addr, **V1)
        limited(wire_number, direction, position, pair)
        pair.dial_both()
        pair.drive()
        unlimit(pair)
        pair.check()


@by_policy
@by_addr
def test_one_wire_is_cut_anywhere_during_a_race(policy: Policy, addr: str) -> None:
    for wire_number, direction, position in cases(step=9):
        pair = Race(policy, addr=addr, **V1)

        def tap(
            wire: Wire, pair: Race = pair, n: int = wire_number, d: int = direction, p: int = position
        ) -> None:
            if len(pair.wires) == n:
                wire.pipes[d].cut_at = p

        pair.opened = tap
        pair.dial_both()
        pair.check()


@by_policy
@by_addr
def test_one_dial_is_held_up_until_its_own_timeout(policy: Policy, addr: str) -> None:
    for wire_number, direction, position in cases(step=53):
        pair = Race(policy, addr=addr, **V1)
        limited(wire_number, direction, position, pair)
        pair.dial_both()
        pair.pass_time(11.0)
        unlimit(pair)
        pair.check()


@by_policy
@by_addr
@pytest.mark.parametrize("wire_number", [2, 3])
@pytest.mark.parametrize("direction", [0, 1])
def test_a_race_of_reconnects(policy: Policy, addr: str, wire_number: int, direction: int) -> None:
    for position in range(0, 480, 11):
        pair = Race(policy, addr=addr, **V1)
        pair.established()
        pair.wire.hold()
        pair.dial_both()
        pair.drive()
        limited(wire_number, direction, position, pair)
        pair.wire.cut()
        pair.drive()
        unlimit(pair)
        pair.check()
        assert all(len(node.endpoint.sessions) == 1 for node in pair.nodes)


def test_an_unregistered_client_leaves_the_own_dial_to_its_address_alone() -> None:
    """An acceptor that does not register lossy clients does not look for sessions either (§3.4 step 5)."""
    node = new_v1_node(policy=STATELESS_SERVER)
    session = node.connect(B_V1_ADDR, policy=LOSSY_CLIENT)
    meet("acceptor", node).handshake()
    assert session.state is SessionState.CONNECTING
    assert node.kinds == [EventKind.ACCEPT]
