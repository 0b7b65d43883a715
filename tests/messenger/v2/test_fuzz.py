"""Arbitrary bytes of a peer, at any time, lead to nothing but a fault (scenario MF-21, invariant INV-12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.exchange import ConMode
from messenger.errors import PeerError
from messenger.session.policy import LOSSLESS_CLIENT
from messenger.v2.wire import CONTROL_FRAMES, Tag
from tests.support.node import Node, new_node
from tests.support.raw_peer import ROLES, RawPeer, meet
from toolkit.errors import ScenarioFailed

SECURITY = [("none", ConMode.CRC), ("cephx", ConMode.CRC), ("cephx", ConMode.SECURE)]
U64 = st.one_of(st.sampled_from([0, 1, 2**31, 2**32, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
UTTERANCES = st.lists(
    st.one_of(
        st.tuples(st.just("bytes"), st.binary(max_size=120)),
        st.tuples(st.just("frame"), st.sampled_from(sorted(Tag)), st.binary(max_size=120)),
        st.tuples(st.just("changed"), st.integers(0, 200), st.integers(1, 255)),
        st.tuples(st.just("message"), U64, U64),
    ),
    max_size=6,
)


def send_kind(peer: RawPeer, kind: str, *what: object) -> None:
    """One utterance. ``changed`` alters one byte of the payload of the next frame that is sent properly."""
    if kind == "bytes":
        peer.write(*what)  # type: ignore[arg-type]
    elif kind == "frame":
        peer.write(peer.writer.control(*what))  # type: ignore[arg-type]
    elif kind == "message":
        seq, ack_seq = what
        peer.write(peer.message(seq, ack_seq=ack_seq, tid=1))  # type: ignore[arg-type]
    else:
        spoil_next_frame(peer, *what)  # type: ignore[arg-type]


def spoil_next_frame(peer: RawPeer, offset: int, mask: int) -> None:
    control = peer.writer.control

    class Spoiler:
        message = staticmethod(peer.writer.message)

        @staticmethod
        def control(tag: int, payload: bytes) -> bytes:
            changed = bytearray(payload or b"\0")
            changed[offset % len(changed)] ^= mask
            return control(tag, bytes(changed))

    peer.writer = Spoiler()


def guard(peer: RawPeer) -> None:
    """Tell what the core raises from the peer's own disappointments."""
    write = peer.write

    def guarded(raw: bytes) -> None:
        try:
            write(raw)
        except Exception as error:
            raise RuntimeError("left the core") from error

    peer.write = guarded  # type: ignore[method-assign]


def go_on(peer: RawPeer, start: int) -> None:
    """Finish the handshake as far as the node still plays along."""
    try:
        for step in peer.steps[start:]:
            step()
    except (ScenarioFailed, PeerError):
        return


def check_sane(node: Node) -> None:
    for session in node.endpoint.sessions:
        assert session.out_seq >= 0
        assert len(session.queue) >= 0
    snapshot = node.endpoint.snapshot()
    assert snapshot["dispatch_bytes"] == 0
    assert node.fault_texts is not None


@pytest.mark.parametrize(("auth", "mode"), SECURITY)
@pytest.mark.parametrize("role", ROLES)
@given(steps=st.integers(0, 6), utterances=UTTERANCES)
def test_no_input_of_a_peer_leaves_the_core_as_an_exception(
    role: str, auth: str, mode: ConMode, steps: int, utterances: list[tuple[object, ...]]
) -> None:
    node = new_node(auth=auth, mode=mode, policy=LOSSLESS_CLIENT)
    peer = meet(role, node, auth=auth, mode=mode)
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


@given(tag=st.sampled_from(sorted(CONTROL_FRAMES)), values=st.lists(U64, max_size=6))
def test_extreme_numbers_in_the_session_phase(tag: int, values: list[int]) -> None:
    """What is nothing but numbers, answered on a session that was established before and reconnects."""
    node = new_node(policy=LOSSLESS_CLIENT, ms_max_backoff=0.2)
    meet("connector", node).handshake().hang_up()
    for session in node.endpoint.sessions:
        node.send(session, 1, 2)
    payload = b"".join(value.to_bytes(8, "little") for value in values)
    for _ in range(3):
        peer = RawPeer(node).accept()
        peer.handshake(until=peer.ident)
        peer.write(peer.writer.control(tag, payload))
        peer.hang_up()
        node.run(0.3)
    check_sane(node)
