"""Peers that are not the right ones: type, address, features (docs/protocol.md §4.9; scenarios HS-14 to HS-16)."""

from dataclasses import replace

import pytest

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2
from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSY_CLIENT, Policy
from messenger.session.session import SessionState
from messenger.v2.wire import ClientIdent, IdentMissingFeatures, ServerIdent, SessionReconnectOk
from tests.support.node import B_ADDR, new_node
from tests.support.raw_peer import RawPeer, meet


@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSY_CLIENT])
def test_another_type_of_entity_than_dialled_ends_the_session(policy: Policy) -> None:
    node = new_node(policy=policy)
    peer = RawPeer(node, name=EntityName(EntityType.MON, 0))
    node.connect(B_ADDR, EntityType.OSD)
    peer.accept()
    peer.banner()
    peer.hello()
    assert node.faults == [FaultReason.PEER_TYPE]
    assert node.fault_texts[0].endswith("dialled a osd, but the peer is a mon")
    assert node.kinds == [EventKind.RESET]
    assert node.endpoint.sessions == []


@pytest.mark.parametrize(
    "target", ["v2:10.0.0.1:6801/9", "v2:10.0.0.1:6809/1", "v2:10.0.0.9:6801/1", "v1:10.0.0.1:6801/1", "-"]
)
def test_peer_with_another_target_address_is_refused(target: str) -> None:
    node = new_node()
    peer = meet("acceptor", node)
    peer.handshake(until=peer.ident)
    peer.send(peer.client_ident(target_addr=EntityAddr.parse(target)))
    assert node.faults == [FaultReason.WRONG_TARGET]
    assert node.endpoint.sessions == []


@pytest.mark.parametrize("addrs", ["v2:10.0.0.2:6802/3", "[v2:10.0.0.3:6802/2,v1:10.0.0.2:6789/2]", "[]"])
def test_server_other_than_the_dialled_one_is_refused(addrs: str) -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    peer.expect(ClientIdent)
    peer.send(peer.server_ident(addrs=AddrVec.parse(addrs)))
    assert node.faults == [FaultReason.WRONG_TARGET]
    assert node.kinds == [EventKind.REFUSED]
    assert node.endpoint.sessions[0].state is SessionState.CONNECTING


def test_a_server_with_more_addresses_than_the_dialled_one_is_found_under_all() -> None:
    node = new_node()
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    peer.expect(ClientIdent)
    both = AddrVec.parse(f"[{B_ADDR},v1:10.0.0.2:6789/2]")
    peer.send(peer.server_ident(addrs=both))
    session = node.endpoint.registry.lookup(both)
    assert session is not None
    assert session.state is SessionState.READY
    assert node.endpoint.snapshot()["registry"] == 1


@pytest.mark.parametrize(("count", "reason"), [(64, FaultReason.WRONG_TARGET), (65, FaultReason.MALFORMED)])
def test_many_addresses_make_a_short_fault(count: int, reason: FaultReason) -> None:
    node = new_node()
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    peer.expect(ClientIdent)
    peer.send(peer.server_ident(addrs=AddrVec.parse(",".join(["v2:10.0.0.3:6802/2"] * count))))
    assert node.faults == [reason]


@pytest.mark.parametrize("addrs", [AddrVec(), AddrVec((EntityAddr(),))])
def test_a_client_must_have_an_address(addrs: AddrVec) -> None:
    node = new_node()
    peer = meet("acceptor", node)
    peer.handshake(until=peer.ident)
    peer.send(peer.client_ident(addrs=addrs))
    assert node.faults == [FaultReason.MALFORMED]


# ---- features

BIT = 1 << 40


def test_client_without_features_gets_the_mask_and_may_retry() -> None:
    node = new_node(policy=LOSSLESS_PEER.requiring(BIT))
    peer = meet("acceptor", node)
    peer.handshake(until=peer.ident)
    peer.send(peer.client_ident(features_supported=CLIENT_FEATURES & ~BIT & ~MSG_ADDR2))
    assert peer.expect(IdentMissingFeatures).features == BIT | MSG_ADDR2
    assert (node.faults, peer.closed) == ([FaultReason.MISSING_FEATURES], False)
    assert node.endpoint.sessions == []
    peer.send(peer.client_ident(features_supported=CLIENT_FEATURES | BIT))
    peer.expect(ServerIdent)
    assert node.endpoint.sessions[0].state is SessionState.READY


@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSY_CLIENT])
def test_missing_features_are_retried_with_backoff(policy: Policy) -> None:
    node = new_node(policy=policy)
    for delay_s in 0.2, 0.4, 0.8:
        peer = meet("connector", node) if not node.events else RawPeer(node).accept()
        peer.handshake(until=peer.ident)
        peer.expect(ClientIdent)
        peer.send(IdentMissingFeatures(BIT))
        assert set(node.faults) == {FaultReason.MISSING_FEATURES}
        assert node.endpoint.next_deadline() == pytest.approx(node.now + delay_s)
        node.run(delay_s)
    assert node.kinds == [EventKind.REFUSED] * 3
    peer = RawPeer(node).accept().handshake()
    assert node.kinds[-1] is EventKind.CONNECT


def test_a_server_that_lacks_required_features_is_refused() -> None:
    node = new_node(policy=LOSSLESS_CLIENT.requiring(BIT))
    peer = meet("connector", node)
    peer.handshake(until=peer.ident)
    assert peer.expect(ClientIdent).features_required == BIT | MSG_ADDR2
    peer.send(peer.server_ident(features_supported=CLIENT_FEATURES & ~BIT))
    assert node.faults == [FaultReason.MISSING_FEATURES]
    assert node.kinds == [EventKind.REFUSED]


def test_features_of_a_session_are_what_both_support() -> None:
    node = new_node()
    meet("connector", node).handshake()
    peer = meet("acceptor", new_node())
    peer.handshake(until=peer.ident)
    peer.send(peer.client_ident(features_supported=MSG_ADDR2 | 1 << 2 | 1 << 62))
    peer.expect(ServerIdent)
    (session,) = peer.node.endpoint.sessions
    assert session.features == (MSG_ADDR2 | 1 << 2) & CLIENT_FEATURES


def test_lossless_sessions_are_registered_without_register_lossy_clients() -> None:
    node = new_node(policy=replace(LOSSLESS_PEER, register_lossy_clients=False))
    meet("acceptor", node).handshake()
    (session,) = node.endpoint.sessions
    assert node.endpoint.registry.lookup(session.peer_addrs) is session
    again = meet("acceptor", node)
    again.handshake(until=again.ident)
    again.send(again.session_reconnect(server_cookie=session.server_cookie, global_seq=2))
    again.expect(SessionReconnectOk)
    assert node.endpoint.sessions == [session]
