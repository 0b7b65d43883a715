"""Every piece in every state is either handled or a fault, and no bytes do more than that (V1-02, INV-12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.exchange import AuthMethod
from messenger.errors import FaultReason, PeerError
from messenger.session.policy import LOSSLESS_CLIENT
from messenger.v1.acceptor import ACCEPTOR
from messenger.v1.connector import CONNECTOR
from messenger.v1.states import LinkState
from messenger.v1.wire import REPLY_TAGS, Ack, ClientIdentify, ConnectReply, Frame, KeepAlive2, Piece, Seq, Tag
from tests.support.node import Node
from tests.support.raw_v1 import RawV1Peer, meet, new_v1_node
from toolkit.errors import ScenarioFailed

ROLES = ("connector", "acceptor")
SECURITY = ["none", "cephx"]

STEPS_DONE: dict[tuple[str, LinkState], int] = {
    ("connector", LinkState.CONNECTING_WAIT_BANNER_AND_IDENTIFY): 1,
    ("connector", LinkState.CONNECTING_SEND_CONNECT_MSG): 2,
    ("connector", LinkState.CONNECTING_WAIT_ACK_SEQ): 3,
    ("acceptor", LinkState.ACCEPTING): 1,
    ("acceptor", LinkState.ACCEPTING_WAIT_CONNECT_MSG_AUTH): 2,
    ("acceptor", LinkState.ACCEPTING_HANDLED_CONNECT_MSG): 3,
    ("connector", LinkState.OPENED): 4,
    ("acceptor", LinkState.OPENED): 4,
}
"""How many steps of the handshake the peer has done in each state."""

by_place = pytest.mark.parametrize(("role", "state"), STEPS_DONE)


def arrive(role: str, state: LinkState, auth: str = "none") -> tuple[Node, RawV1Peer]:
    node = new_v1_node(auth=auth, policy=LOSSLESS_CLIENT)
    peer = meet(role, node, auth=auth)
    for step in peer.steps[: STEPS_DONE[role, state]]:
        step()
    return node, peer


def test_the_tables_have_every_state_and_every_reply() -> None:
    assert {(state, key) for state, key in ACCEPTOR} == {
        (LinkState.ACCEPTING, Piece.IDENTIFY),
        (LinkState.ACCEPTING_WAIT_CONNECT_MSG_AUTH, Piece.CONNECT),
        (LinkState.ACCEPTING_HANDLED_CONNECT_MSG, Piece.SEQ),
    }
    assert {key for state, key in CONNECTOR if state is LinkState.CONNECTING_SEND_CONNECT_MSG} == REPLY_TAGS


@by_place
def test_each_state_is_the_one_meant(role: str, state: LinkState) -> None:
    node, peer = arrive(role, state)
    peer.hang_up()
    assert f" in {state.value}" in node.fault_texts[-1]


@by_place
@pytest.mark.parametrize("auth", SECURITY)
@pytest.mark.parametrize(
    "raw", [b"\0", b"\xff", bytes(300), b"\xff" * 300, b"GET / HTTP/1.1\r\n\r\n", b"\x07" * 300]
)
def test_noise_in_any_state_is_a_fault_or_waits_for_more(
    role: str, state: LinkState, auth: str, raw: bytes
) -> None:
    node, peer = arrive(role, state, auth)
    peer.write(raw)
    assert len(node.faults) <= 1
    assert peer.closed == bool(node.faults)
    node.run(11.0)
    opened = state is LinkState.OPENED or not raw.strip(b"\0")
    assert node.faults or opened


@pytest.mark.parametrize("role", ROLES)
def test_a_reply_on_an_open_link_changes_nothing_of_the_session(role: str) -> None:
    """V1-07: a hostile acceptor's RETRY_SESSION and the like, where they do not belong."""
    node, peer = arrive(role, LinkState.OPENED)
    (session,) = node.endpoint.sessions
    before = (session.connect_seq, session.in_seq, session.out_seq, session.peer_global_seq)
    peer.send(ConnectReply(Tag.RETRY_SESSION, 0, 9, 9))
    assert node.faults == [FaultReason.UNEXPECTED_FRAME]
    assert (session.in_seq, session.out_seq, session.peer_global_seq) == before[1:]


# ---- anything at any time

U32 = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
U64 = st.one_of(st.sampled_from([0, 1, 2**31, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
UTTERANCES = st.lists(
    st.one_of(
        st.tuples(st.just("bytes"), st.binary(max_size=400)),
        st.tuples(st.just("reply"), st.sampled_from(sorted(REPLY_TAGS)), U64, U32, U32, st.binary(max_size=60)),
        st.tuples(st.just("connect"), U64, U32, U32, st.integers(0, 3), st.binary(max_size=60)),
        st.tuples(st.just("seq"), U64),
        st.tuples(st.just("message"), U64),
        st.tuples(st.just("ack"), U64),
        st.tuples(st.just("keepalive"), U32, U32),
        st.tuples(st.just("identify"), st.binary(min_size=136, max_size=136)),
    ),
    max_size=6,
)


def send_kind(peer: RawV1Peer, kind: str, *what: object) -> None:
    frames: dict[str, type[Frame]] = {"seq": Seq, "ack": Ack, "keepalive": KeepAlive2}
    if kind in ("bytes", "identify"):
        peer.write(*what)  # type: ignore[arg-type]
    elif kind == "message":
        peer.write(peer.message(*what, tid=1))  # type: ignore[misc,arg-type]
    elif kind == "reply":
        tag, features, global_seq, connect_seq, authorizer = what
        peer.send(ConnectReply(tag, features, global_seq, connect_seq, authorizer=authorizer))  # type: ignore[arg-type]
    elif kind == "connect":
        features, global_seq, connect_seq, method, authorizer = what
        changes = {"authorizer_protocol": method, "authorizer": authorizer} if authorizer else {}
        peer.send(
            peer.connect_message(features=features, global_seq=global_seq, connect_seq=connect_seq, **changes)
        )
    else:
        peer.send(frames[kind](*what))  # type: ignore[call-arg]


def guard(peer: RawV1Peer) -> None:
    """Tell what the core raises from the peer's own disappointments."""
    write = peer.write

    def guarded(raw: bytes) -> None:
        try:
            write(raw)
        except Exception as error:
            raise RuntimeError("left the core") from error

    peer.write = guarded  # type: ignore[method-assign]


def go_on(peer: RawV1Peer, start: int) -> None:
    """Finish the handshake as far as the node still plays along."""
    try:
        for step in peer.steps[start:]:
            step()
    except (ScenarioFailed, PeerError):
        return


def check_sane(node: Node) -> None:
    for session in node.endpoint.sessions:
        assert session.out_seq >= 0
        assert session.connect_seq < 2**33
    assert node.endpoint.snapshot()["dispatch_bytes"] == 0
    assert node.endpoint.numbers.next_global_seq() < 2**33
    assert node.fault_texts is not None


@pytest.mark.parametrize("auth", SECURITY)
@pytest.mark.parametrize("role", ROLES)
@given(steps=st.integers(0, 4), utterances=UTTERANCES)
def test_no_input_of_a_peer_leaves_the_core_as_an_exception(
    role: str, auth: str, steps: int, utterances: list[tuple[object, ...]]
) -> None:
    node = new_v1_node(auth=auth, policy=LOSSLESS_CLIENT)
    peer = meet(role, node, auth=auth)
    for step in peer.steps[:steps]:
        step()
    guard(peer)
    for kind, *what in utterances:
        send_kind(peer, str(kind), *what)
    go_on(peer, steps)
    for session in node.endpoint.sessions:
        node.send(session, 1, 2)
        node.endpoint.send_keepalive(session, node.now)
    node.run(30.0)
    check_sane(node)


@given(cuts=st.lists(st.integers(1, 400), max_size=30), changed=st.integers(0, 2000), mask=st.integers(0, 255))
def test_the_result_does_not_depend_on_how_bytes_were_cut(cuts: list[int], changed: int, mask: int) -> None:
    """The same bytes, good or spoiled, in one piece and in many: the same deliveries and the same faults."""
    whole = meet("acceptor", new_v1_node())
    sent: list[bytes] = []
    whole.write = sent.append  # type: ignore[method-assign]
    connect = whole.connect_message(authorizer_protocol=AuthMethod.NONE)
    whole.send(ClientIdentify(whole.addr), connect, Seq(0), Ack(0), KeepAlive2(1, 2))
    messages = [whole.message(seq, front=b"front" * seq, data=b"data") for seq in (1, 2, 3)]
    raw = bytearray(b"ceph v027" + b"".join(sent + messages))
    raw[changed % len(raw)] ^= mask
    results = []
    for pieces in ([len(raw)], [*cuts, len(raw)]):
        node = new_v1_node()
        peer = RawV1Peer(node).dial()
        position = 0
        for size in pieces:
            peer.write(bytes(raw[position : position + size]))
            position += size
        results.append((node.tids, node.faults, peer.inbound))
    one, many = results
    assert one[:2] == many[:2]


def test_a_handshake_without_end_is_given_up() -> None:
    """A peer that is refused again and again costs no memory, and not for ever (MF-03)."""
    node = new_v1_node(auth="cephx", max_preauth_bytes=100_000)
    peer = meet("acceptor", node, auth="cephx")
    peer.banner()
    peer.identify()
    connect = peer.connect_message(authorizer=bytes(1000))
    for _ in range(200):
        peer.send(connect)
        assert sum(node.endpoint.held_bytes.values()) < 10_000
        if peer.closed:
            break
    assert node.faults[-1] is FaultReason.OVERSIZE


@pytest.mark.parametrize("role", ROLES)
def test_huge_authorizers_are_refused_by_their_length(role: str) -> None:
    node = new_v1_node()
    peer = meet(role, node)
    peer.banner()
    peer.identify()
    if role == "acceptor":
        peer.write(peer.connect_message(authorizer=bytes(200_000)).encode()[:33])
    else:
        peer.write(ConnectReply(Tag.READY, 0, authorizer=bytes(200_000)).encode()[:26])
    assert node.faults == [FaultReason.OVERSIZE]
    assert sum(node.endpoint.held_bytes.values()) == 0
