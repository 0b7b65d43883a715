"""Disputed rules about the peer's identity and the dialled address: HELLO, addresses without a port, numbers."""

import pytest

from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    STATEFUL_SERVER,
    STATELESS_REGISTERED_SERVER,
    Policy,
)
from messenger.session.session import SessionState
from messenger.v2.wire import ClientIdent, SessionReconnect, SessionReset
from tests.support.node import B_ADDR, new_node
from tests.support.raw_peer import RawPeer, meet
from tests.support.raw_v1 import RawV1Peer, new_v1_node

# ---- hello_addr


@pytest.mark.parametrize(
    ("seen", "foreign"),
    [
        ("v2:10.0.0.1:6801/1", False),
        ("v2:192.0.2.9:6801/1", False),
        ("v2:10.0.0.1:9999/1", True),
        ("v2:10.0.0.1:6801/4242", True),
    ],
)
def test_the_address_that_was_dialled(seen: str, foreign: bool) -> None:  # noqa: FBT001
    """The IP may be another one: this side may not know its own, or be behind a NAT."""
    for rule in ("any", "own"):
        node = new_node(hello_addr=rule)
        peer = RawPeer(node).dial()
        peer.banner()
        peer.hello(peer_addr=EntityAddr.parse(seen))
        refused = foreign and rule == "own"
        assert (peer.closed, node.faults) == (refused, [FaultReason.WRONG_TARGET] * refused)


def test_a_refused_hello_teaches_no_address() -> None:
    node = new_node("v2:0.0.0.0:6801/1", hello_addr="own")
    peer = RawPeer(node).dial()
    peer.banner()
    peer.hello(peer_addr=EntityAddr.parse("v2:10.6.6.6:9/1"))
    assert node.endpoint.addrs.front.is_blank_ip


# ---- portless_peer


@pytest.mark.parametrize(
    ("policy", "dials"),
    [
        (LOSSLESS_PEER, True),
        (LOSSLESS_CLIENT, True),
        (STATEFUL_SERVER, False),
        (STATELESS_REGISTERED_SERVER, False),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("protocol", ["v1", "v2"])
def test_a_peer_that_cannot_be_dialled_again(protocol: str, policy: Policy, dials: bool) -> None:  # noqa: FBT001
    for rule in ("accept", "refuse"):
        node = (new_v1_node if protocol == "v1" else new_node)(policy=policy, portless_peer=rule)
        peer = (RawV1Peer if protocol == "v1" else RawPeer)(node, addr=f"{protocol}:10.0.0.9:0/5").dial()
        if dials and rule == "refuse":
            peer.handshake(peer.connect if isinstance(peer, RawV1Peer) else peer.ident)
            peer.send(peer.connect_message() if isinstance(peer, RawV1Peer) else peer.client_ident())
            assert (peer.closed, node.faults) == (True, [FaultReason.MALFORMED])
            assert node.endpoint.sessions == []
            continue
        peer.handshake()
        assert node.kinds == [EventKind.ACCEPT]


# ---- server_number


@pytest.mark.parametrize(("number", "changed"), [(2, False), (77, True)])
def test_a_server_with_another_number_than_before(number: int, changed: bool) -> None:  # noqa: FBT001
    for rule in ("adopt", "close"):
        node = new_node(policy=LOSSLESS_CLIENT, server_number=rule)
        session = node.connect(B_ADDR)
        RawPeer(node).accept().handshake().hang_up()
        assert session.peer_name == EntityName(EntityType.OSD, 2)
        peer = RawPeer(node).accept()
        peer.handshake(peer.ident)
        peer.expect(SessionReconnect)
        peer.send(SessionReset(full=False))
        peer.expect(ClientIdent)
        peer.send(peer.server_ident(gid=number))
        if changed and rule == "close":
            assert (session.state, node.faults[1:]) == (SessionState.CLOSED, [FaultReason.PEER_NUMBER])
            assert node.kinds == [EventKind.CONNECT, EventKind.RESET]
        else:
            assert (session.state, session.peer_name.num) == (SessionState.READY, number)
            assert node.kinds == [EventKind.CONNECT] * 2


@pytest.mark.parametrize("rule", ["adopt", "close"])
def test_the_first_number_is_adopted(rule: str) -> None:
    node = new_node(policy=LOSSLESS_CLIENT, server_number=rule)
    meet("connector", node, name=EntityName(EntityType.OSD, 9)).handshake()
    (session,) = node.endpoint.sessions
    assert (session.state, session.peer_name.num) == (SessionState.READY, 9)
