"""Both protocols at one messenger: which is dialled, and one session per peer (family MX).

See docs/protocol.md §9 items 28 and 29.
"""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.outputs import EventKind, OpenLink
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, STATEFUL_SERVER
from messenger.session.session import Session, SessionState
from tests.support.network import Network, Pair
from tests.support.node import Node, new_endpoint
from tests.support.raw_peer import RawPeer
from tests.support.raw_v1 import RawV1Peer

A_BOTH = "[v2:10.0.0.1:3300/1,v1:10.0.0.1:6789/1]"
B_BOTH = "[v2:10.0.0.2:3300/2,v1:10.0.0.2:6789/2]"
B_V1 = "v1:10.0.0.2:6789/2"
B_V2 = "v2:10.0.0.2:3300/2"


def node(number: int, addrs: str, **options: object) -> Node:
    return Node(new_endpoint(EntityName(EntityType.OSD, number), addrs, **options))  # type: ignore[arg-type]


def spoken(session: Session) -> Protocol:
    assert session.link is not None
    return session.link.PROTOCOL


# ---- which address is dialled


@pytest.mark.parametrize(
    ("own", "peer", "dialled"),
    [
        ("any:0.0.0.0:0/7", B_BOTH, B_V2),
        ("any:0.0.0.0:0/7", B_V1, B_V1),
        ("any:0.0.0.0:0/7", B_V2, B_V2),
        (A_BOTH, B_BOTH, B_V2),
        ("v2:10.0.0.1:3300/1", B_BOTH, B_V2),
        ("v1:10.0.0.1:6789/1", B_BOTH, B_V1),
    ],
)
def test_v2_is_preferred_unless_only_v1_is_listened_for(own: str, peer: str, dialled: str) -> None:
    """MX-01, MX-02."""
    me = node(1, own)
    me.connect(peer)
    me.pump()
    (output,) = (output for output in me.outbox if isinstance(output, OpenLink))
    assert output.addr == EntityAddr.parse(dialled)


@pytest.mark.parametrize("own", ["v1:10.0.0.1:6789/1", A_BOTH, "any:0.0.0.0:0/7"])
@pytest.mark.parametrize("peer", [B_BOTH, B_V1])
def test_messengers_find_the_protocol_they_have_in_common(own: str, peer: str) -> None:
    network = Network()
    me, you = (
        network.add(node(1, own, policy=LOSSLESS_CLIENT)),
        network.add(node(2, B_BOTH, policy=STATEFUL_SERVER)),
    )
    session = me.connect(peer)
    me.send(session, 1)
    network.drive()
    assert you.tids == [1]
    you.send(you.endpoint.sessions[0], 2)
    network.drive()
    assert me.tids == [2]


@pytest.mark.parametrize(("protocol", "other"), [("v1", FaultReason.V2_PEER), ("v2", FaultReason.V1_PEER)])
def test_a_dial_to_the_other_protocols_port_is_a_clean_fault(protocol: str, other: FaultReason) -> None:
    """MX-04."""
    network = Network()
    me, you = network.add(node(1, "any:0.0.0.0:0/7", policy=LOSSLESS_CLIENT)), network.add(node(2, B_BOTH))
    me.connect(f"{protocol}:10.0.0.2:3300/2" if protocol == "v1" else "v2:10.0.0.2:6789/2")
    original = you.endpoint.link_accepted

    def accepted(remote: EntityAddr, now: float, dialled: Protocol) -> int:
        return original(remote, now, Protocol.V2 if dialled is Protocol.V1 else Protocol.V1)

    you.endpoint.link_accepted = accepted  # type: ignore[method-assign,assignment]
    network.pass_time(1.0)
    assert set(me.faults) == {other}
    assert len(network.wires) == 3


# ---- one session per peer


def test_an_incoming_v1_connect_ends_the_v2_session_with_that_peer() -> None:
    """MX-03."""
    me = node(1, A_BOTH, policy=LOSSLESS_PEER)
    v2 = RawPeer(me, addr=B_BOTH).dial().handshake()
    (old,) = me.endpoint.sessions
    v1 = RawV1Peer(me, addr=B_V1).dial().handshake()
    assert (old.state, v2.closed) == (SessionState.CLOSED, True)
    assert me.kinds == [EventKind.ACCEPT, EventKind.RESET, EventKind.ACCEPT]
    (session,) = me.endpoint.sessions
    assert spoken(session) is Protocol.V1
    v1.send_messages(1)
    assert me.tids == [1]
    assert me.endpoint.snapshot()["registry"] == 1


def test_an_incoming_v2_connect_ends_the_v1_session_with_that_peer() -> None:
    me = node(1, A_BOTH, policy=LOSSLESS_PEER)
    v1 = RawV1Peer(me, addr=B_V1).dial().handshake()
    (old,) = me.endpoint.sessions
    v2 = RawPeer(me, addr=B_BOTH).dial().handshake()
    assert (old.state, v1.closed) == (SessionState.CLOSED, True)
    (session,) = me.endpoint.sessions
    assert spoken(session) is Protocol.V2
    v2.send_messages(1)
    assert me.tids == [1]


def test_a_client_that_changes_its_protocol_is_known_by_ip_and_nonce() -> None:
    me = node(1, A_BOTH, policy=STATEFUL_SERVER)
    client = EntityName(EntityType.CLIENT, 9)
    RawPeer(me, name=client, addr="any:10.0.0.5:0/99").dial().handshake()
    RawV1Peer(me, name=client, addr="any:10.0.0.5:0/99").dial().handshake()
    assert [spoken(session) for session in me.endpoint.sessions] == [Protocol.V1]
    RawPeer(me, name=client, addr="any:10.0.0.5:0/99").dial().handshake()
    assert [spoken(session) for session in me.endpoint.sessions] == [Protocol.V2]
    RawV1Peer(me, name=client, addr="any:10.0.0.5:0/98").dial().handshake()
    assert len(me.endpoint.sessions) == 2


def test_a_peer_that_was_dialled_by_both_addresses_is_recognised_by_its_v1_address() -> None:
    """The incoming CONNECT has one address; the session is registered under two."""
    me = node(1, "v1:10.0.0.1:6789/1", policy=LOSSLESS_PEER)
    session = me.connect(B_BOTH)
    me.send(session, 1)
    me.pump()
    peer = RawV1Peer(me, addr=B_V1).dial()
    peer.banner()
    peer.identify()
    assert peer.converse().tag.name == "WAIT"
    assert me.endpoint.sessions == [session]


# ---- races are decided by the addresses of the protocol spoken (§9 item 33)


@pytest.mark.parametrize(("v1_nonce", "v2_nonce"), [(1, 9), (9, 1)])
def test_a_v1_race_is_decided_by_the_v1_addresses(v1_nonce: int, v2_nonce: int) -> None:
    addr = f"[v2:10.0.0.1:3300/{v2_nonce},v1:10.0.0.1:6789/{v1_nonce}]"
    network = Network()
    a, b = network.add(node(1, addr)), network.add(node(2, "v1:10.0.0.2:6789/5"))
    mine, theirs = a.connect("v1:10.0.0.2:6789/5"), b.connect(f"v1:10.0.0.1:6789/{v1_nonce}")
    a.send(mine, 1)
    b.send(theirs, 2)
    network.pass_time(20.0)
    assert (a.tids, b.tids) == ([2], [1])
    (wire,) = (wire for wire in network.wires if wire.open)
    assert wire.connector is (a if v1_nonce < 5 else b)


# ---- side by side


def test_sessions_of_both_protocols_at_one_messenger() -> None:
    me = node(1, A_BOTH, policy=LOSSLESS_PEER, mode=ConMode.CRC)
    v1 = RawV1Peer(me, addr="v1:10.0.0.3:6789/3").dial().handshake()
    v2 = RawPeer(me, addr="v2:10.0.0.4:3300/4").dial().handshake()
    for peer in v1, v2:
        peer.send_messages(1)
    assert me.tids == [1, 1]
    assert {spoken(session) for session in me.endpoint.sessions} == set(Protocol)


@pytest.mark.parametrize("policy", [LOSSY_CLIENT, LOSSLESS_CLIENT])
def test_global_seq_is_shared(policy: object) -> None:
    pair = Pair(policy, protocol=Protocol.V1)  # type: ignore[arg-type]
    mine = pair.connect()
    pair.a.endpoint.addrs = AddrVec.parse(A_BOTH)
    other = pair.a.connect("v2:10.0.0.9:3300/9")
    assert other.global_seq == mine.global_seq + 1
