"""Every frame in every state is either handled or a fault (scenarios MF-01, MF-02, RS-09, invariant INV-12)."""

import pytest

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.features import MSGR2_SUPPORTED
from messenger.errors import FaultReason
from messenger.session.policy import LOSSLESS_CLIENT
from messenger.session.session import SessionState
from messenger.v2.states import LinkState
from messenger.v2.wire import (
    CONTROL_FRAMES,
    Ack,
    AuthBadMethod,
    AuthDone,
    AuthReplyMore,
    AuthRequest,
    AuthRequestMore,
    AuthSignature,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Hello,
    IdentMissingFeatures,
    KeepAlive2,
    KeepAlive2Ack,
    SessionReconnect,
    SessionReconnectOk,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    Tag,
    Wait,
    tag_name,
)
from tests.support.node import Node, new_node
from tests.support.raw_peer import COOKIE, RawPeer, meet

HANDLED: dict[LinkState, set[Tag]] = {
    LinkState.HELLO_CONNECTING: {Tag.HELLO},
    LinkState.AUTH_CONNECTING: {Tag.AUTH_BAD_METHOD, Tag.AUTH_REPLY_MORE, Tag.AUTH_DONE},
    LinkState.AUTH_CONNECTING_SIGN: {Tag.AUTH_SIGNATURE},
    LinkState.COMPRESSION_CONNECTING: {Tag.COMPRESSION_DONE},
    LinkState.SESSION_CONNECTING: {Tag.SERVER_IDENT, Tag.IDENT_MISSING_FEATURES, Tag.WAIT},
    LinkState.SESSION_RECONNECTING: {
        Tag.SESSION_RECONNECT_OK,
        Tag.SESSION_RESET,
        Tag.SESSION_RETRY,
        Tag.SESSION_RETRY_GLOBAL,
        Tag.WAIT,
    },
    LinkState.HELLO_ACCEPTING: {Tag.HELLO},
    LinkState.AUTH_ACCEPTING: {Tag.AUTH_REQUEST},
    LinkState.AUTH_ACCEPTING_MORE: {Tag.AUTH_REQUEST_MORE},
    LinkState.AUTH_ACCEPTING_SIGN: {Tag.AUTH_SIGNATURE},
    LinkState.COMPRESSION_ACCEPTING: {Tag.COMPRESSION_REQUEST},
    LinkState.SESSION_ACCEPTING: {Tag.CLIENT_IDENT, Tag.SESSION_RECONNECT},
    LinkState.READY: {Tag.MESSAGE, Tag.KEEPALIVE2, Tag.KEEPALIVE2_ACK, Tag.ACK},
}
"""docs/protocol.md §4.7 to §4.10. A frame that is handled may still be refused for what it says."""

STEPS_DONE = {
    LinkState.HELLO_CONNECTING: 1,
    LinkState.AUTH_CONNECTING: 3,
    LinkState.AUTH_CONNECTING_SIGN: 4,
    LinkState.COMPRESSION_CONNECTING: 5,
    LinkState.SESSION_CONNECTING: 6,
    LinkState.HELLO_ACCEPTING: 1,
    LinkState.AUTH_ACCEPTING: 2,
    LinkState.AUTH_ACCEPTING_MORE: 3,
    LinkState.AUTH_ACCEPTING_SIGN: 4,
    LinkState.COMPRESSION_ACCEPTING: 5,
    LinkState.SESSION_ACCEPTING: 6,
}
"""How many steps of the handshake the peer has done in each state."""

PLACES = [(state, role) for state in HANDLED for role in ("connector", "acceptor")]
PLACES = [
    (state, role)
    for state, role in PLACES
    if state is LinkState.READY or ("ACCEPTING" in state) == (role == "acceptor")
]
"""Every state that receives frames, and the role a node is in it."""


def arrive(state: LinkState, role: str, mode: ConMode) -> tuple[Node, RawPeer]:
    """A node with a link in a state, and the peer on that link."""
    node = new_node(auth="cephx", mode=mode, policy=LOSSLESS_CLIENT)
    peer = meet(role, node, auth="cephx", mode=mode, features=MSGR2_SUPPORTED)
    if state in STEPS_DONE:
        for step in peer.steps[: STEPS_DONE[state]]:
            step()
        return node, peer
    peer.handshake()
    if state is LinkState.SESSION_RECONNECTING:
        peer.hang_up()
        peer = RawPeer(node, auth="cephx", mode=mode, features=MSGR2_SUPPORTED).accept()
        peer.handshake(until=peer.ident)
    return node, peer


def samples(peer: RawPeer) -> dict[Tag, ControlFrame]:
    """A frame of every tag that a real peer could have sent at some time."""
    frames = [
        Hello(EntityType.OSD, EntityAddr.parse("v2:10.0.0.1:6801/1")),
        AuthRequest(AuthMethod.CEPHX, [peer.mode], b"authorizer"),
        AuthBadMethod(AuthMethod.CEPHX, -13, [AuthMethod.CEPHX], [peer.mode]),
        AuthReplyMore(b"more"),
        AuthRequestMore(b"more"),
        AuthDone(4100, peer.mode, b"reply"),
        AuthSignature(peer.own_signature or bytes(32)),
        peer.client_ident(),
        peer.server_ident(),
        IdentMissingFeatures(1),
        SessionReconnect(peer.addrs, COOKIE, 0xD00D, 2, 1, 0),
        SessionReset(full=True),
        SessionRetry(5),
        SessionRetryGlobal(5),
        SessionReconnectOk(0),
        Wait(),
        KeepAlive2(1, 0),
        KeepAlive2Ack(1, 0),
        Ack(0),
        CompressionRequest(is_compress=False, methods=[]),
        CompressionDone(is_compress=False, method=0),
    ]
    assert {frame.TAG for frame in frames} == set(CONTROL_FRAMES)
    return {frame.TAG: frame for frame in frames}


def send_tag(peer: RawPeer, tag: int) -> None:
    frame = samples(peer).get(tag)  # type: ignore[call-overload]
    if tag == Tag.MESSAGE:
        peer.write(peer.message(1))
    else:
        peer.write(peer.writer.control(tag, frame.encode() if frame else bytes(8)))


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
@pytest.mark.parametrize(("state", "role"), PLACES)
@pytest.mark.parametrize("tag", [*Tag, 0, 23, 99, 255], ids=tag_name)
def test_every_frame_is_handled_or_a_fault(state: LinkState, role: str, tag: int, mode: ConMode) -> None:
    node, peer = arrive(state, role, mode)
    before = len(node.faults)
    send_tag(peer, tag)
    faults = node.faults[before:]
    if tag in HANDLED[state]:
        assert FaultReason.UNEXPECTED_FRAME not in faults
        assert FaultReason.UNKNOWN_TAG not in faults
    else:
        assert faults == [FaultReason.UNEXPECTED_FRAME if tag in list(Tag) else FaultReason.UNKNOWN_TAG]
        assert state.value in node.fault_texts[-1]
        assert peer.closed


@pytest.mark.parametrize(("state", "role"), PLACES)
def test_each_state_is_the_one_meant(state: LinkState, role: str) -> None:
    node, _ = arrive(state, role, ConMode.CRC)
    node.run(9.0)
    node.endpoint.link_eof(max(node.endpoint.held_bytes), node.now)
    node.pump()
    assert f" in {state.value}" in node.fault_texts[-1]


@pytest.mark.parametrize("tag", [Tag.SESSION_RETRY, Tag.SESSION_RESET, Tag.SERVER_IDENT, Tag.SESSION_RECONNECT_OK])
def test_an_answer_in_the_wrong_state_changes_nothing_of_the_session(tag: Tag) -> None:
    node, peer = arrive(LinkState.READY, "connector", ConMode.CRC)
    (session,) = node.endpoint.sessions
    before = (session.client_cookie, session.server_cookie, session.in_seq, session.out_seq)
    send_tag(peer, tag)
    assert (session.client_cookie, session.server_cookie, session.in_seq, session.out_seq) == before
    assert session.state is SessionState.CONNECTING
    assert len(node.kinds) == 1


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
@pytest.mark.parametrize(("state", "role"), PLACES)
def test_an_empty_payload_is_no_worse_than_malformed(state: LinkState, role: str, mode: ConMode) -> None:
    for tag in HANDLED[state]:
        node, peer = arrive(state, role, mode)
        before = len(node.faults)
        peer.write(peer.writer.control(tag, b""))
        expected = FaultReason.RACE if tag is Tag.WAIT else FaultReason.MALFORMED
        assert node.faults[before:] == [expected]


@pytest.mark.parametrize(("state", "role"), PLACES)
def test_an_aborted_frame_in_the_handshake_is_a_fault_and_skipped_afterwards(state: LinkState, role: str) -> None:
    node, peer = arrive(state, role, ConMode.CRC)
    before = len(node.faults)
    aborted = bytearray(peer.message(1, data=b"data"))
    aborted[-13] = 0x01
    peer.write(bytes(aborted))
    if state is LinkState.READY:
        assert node.faults == []
        peer.send_messages(1)
        assert node.tids == [1]
    else:
        assert len(node.faults) == before + 1
