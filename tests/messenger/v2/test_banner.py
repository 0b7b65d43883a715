"""The first bytes of a stream (docs/protocol.md §4.2; scenarios HS-10, HS-11, HS-12)."""

from random import Random

import pytest

from messenger.errors import FaultReason
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_CLIENT, LOSSY_CLIENT, Policy
from messenger.session.session import SessionState
from messenger.v2.wire import encode_banner
from tests.support.node import new_node
from tests.support.raw_peer import ROLES, meet

NOISE = Random(1).randbytes(64)
WRONG = {
    "v1": (b"ceph v027" + bytes(272), FaultReason.V1_PEER, "v1"),
    "http request": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", FaultReason.NOT_MSGR, "an HTTP client"),
    "http response": (b"HTTP/1.1 400 Bad Request\r\n\r\n", FaultReason.NOT_MSGR, "an HTTP server"),
    "tls hello": (bytes.fromhex("1603010200010001fc0303") + NOISE, FaultReason.NOT_MSGR, "TLS"),
    "tls alert": (bytes.fromhex("15030300020246"), FaultReason.NOT_MSGR, ""),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", FaultReason.NOT_MSGR, "ssh"),
    "noise": (NOISE, FaultReason.NOT_MSGR, ""),
    "zeros": (bytes(64), FaultReason.NOT_MSGR, ""),
    "almost": (b"ceph v3\n" + bytes(18), FaultReason.NOT_MSGR, ""),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("piece_bytes", [1, 1000])
@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_banner_gets_its_typed_fault(role: str, kind: str, piece_bytes: int) -> None:
    raw, reason, hint = WRONG[kind]
    node = new_node()
    peer = meet(role, node)
    for start in range(0, len(raw), piece_bytes):
        peer.write(raw[start : start + piece_bytes])
    assert node.faults == [reason]
    assert peer.closed
    assert node.endpoint.link_count == 0
    if piece_bytes > 1:
        assert hint in node.fault_texts[0]


def test_a_connector_dials_again_after_a_wrong_banner() -> None:
    node = new_node(policy=LOSSLESS_CLIENT)
    peer = meet("connector", node)
    peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert node.endpoint.sessions[0].state is SessionState.CONNECTING
    assert node.endpoint.next_deadline() == pytest.approx(0.2)


def test_an_acceptor_forgets_a_stranger_without_an_event() -> None:
    node = new_node()
    meet("acceptor", node).write(b"GET / HTTP/1.1\r\n\r\n")
    assert node.events == []
    assert node.endpoint.sessions == []
    assert node.endpoint.next_deadline() is None


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "written", [b"", b"c", b"ceph v0", b"ceph v2\n", b"ceph v2\n\x10", encode_banner(1, 0)[:-1]]
)
def test_an_unfinished_banner_runs_into_the_ready_timeout(role: str, written: bytes) -> None:
    node = new_node()
    peer = meet(role, node)
    peer.write(written)
    node.run(9.99)
    assert node.faults == []
    node.run(0.02)
    assert node.faults == [FaultReason.READY_TIMEOUT]
    assert peer.closed


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("size", [0, 8, 15])
def test_a_payload_too_short_for_two_masks_is_refused(role: str, size: int) -> None:
    node = new_node()
    meet(role, node).write(b"ceph v2\n" + size.to_bytes(2, "little") + bytes(size))
    assert node.faults == [FaultReason.BANNER]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("piece_bytes", [997, 1 << 20])
@pytest.mark.parametrize("size", [16, 17, 1000, 65535])
def test_extra_bytes_of_a_longer_banner_are_ignored(role: str, size: int, piece_bytes: int) -> None:
    node = new_node()
    peer = meet(role, node)
    masks = encode_banner(1, 0)[10:]
    raw = b"ceph v2\n" + size.to_bytes(2, "little") + masks + b"\xa5" * (size - 16)
    for start in range(0, len(raw), piece_bytes):
        peer.write(raw[start : start + piece_bytes])
    for step in peer.steps[1:]:
        step()
    assert node.kinds == [EventKind.ACCEPT if role == "acceptor" else EventKind.CONNECT]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("supported", "required"), [(1, 4), (7, 4), (0, 1 << 63), (3, 2**64 - 1)])
def test_disjoint_msgr2_features_end_the_link(role: str, supported: int, required: int) -> None:
    node = new_node()
    peer = meet(role, node)
    peer.write(encode_banner(supported, required))
    assert node.faults == [FaultReason.BANNER_FEATURES]
    assert peer.closed


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("own", "required"), [(0, 1), (1, 2), (2, 1), (0, 3)])
def test_requiring_an_unadvertised_feature_is_a_fault(role: str, own: int, required: int) -> None:
    node = new_node(msgr2_features=own)
    meet(role, node).write(encode_banner(3, required))
    assert node.faults == [FaultReason.BANNER_FEATURES]


@pytest.mark.parametrize("policy", [LOSSLESS_CLIENT, LOSSY_CLIENT])
def test_disjoint_msgr2_features_end_a_dialling_session_for_good(policy: Policy) -> None:
    node = new_node(policy=policy)
    meet("connector", node).write(encode_banner(1, 4))
    assert node.kinds == [EventKind.RESET]
    assert node.endpoint.sessions == []
    assert node.endpoint.next_deadline() is None


@pytest.mark.parametrize("role", ROLES)
def test_unknown_supported_features_do_not_matter(role: str) -> None:
    node = new_node()
    peer = meet(role, node, features=2**64 - 1)
    peer.banner = lambda: peer.write(encode_banner(2**64 - 1, 3))  # type: ignore[method-assign]
    peer.handshake()
    assert node.faults == []
