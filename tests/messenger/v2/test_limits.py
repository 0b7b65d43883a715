"""Limits on what an unauthenticated peer can make this side hold (docs/core.md; MF-03, MF-05)."""

from collections.abc import Callable

import pytest

from messenger.cephx.exchange import AuthMethod, AuthOpening, AuthResult, ConMode
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.endpoint import Endpoint
from messenger.errors import FaultReason
from messenger.v2.wire import AuthBadMethod, AuthReplyMore, AuthRequest, Tag, encode_banner
from tests.support.frames import preamble
from tests.support.node import Node, new_endpoint, new_node
from tests.support.raw_peer import ROLES, RawPeer, meet

LIMIT_BYTES = 1 << 20
MAX_ROUNDS = 1000
PER_WRITE = 50

by_role = pytest.mark.parametrize("role", ROLES)


def held_bytes(node: Node) -> int:
    return sum(node.endpoint.held_bytes.values())


def talk_for_ever(node: Node, peer: RawPeer, send_frame: Callable[[], None]) -> None:
    """Say something again and again until the node has enough, and check what it holds meanwhile."""
    for _ in range(MAX_ROUNDS):
        send_frame()
        assert held_bytes(node) < LIMIT_BYTES
        if peer.closed:
            assert held_bytes(node) == 0
            return
    raise AssertionError("the node listens for ever")


@by_role
@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("segments", [1, 4])
def test_huge_frames_are_refused_by_their_preamble(role: str, segments: int, length: int) -> None:
    node = new_node()
    peer = meet(role, node)
    peer.banner()
    rest = length if segments > 1 else 0
    peer.write(preamble(Tag.HELLO, (length, rest, rest, rest), segments=segments))
    assert node.faults == [FaultReason.OVERSIZE]
    assert held_bytes(node) == 0


@by_role
@pytest.mark.parametrize("length", [100_000, 131_000])
def test_a_large_frame_is_held_once_and_within_the_limit(role: str, length: int) -> None:
    node = new_node()
    peer = meet(role, node)
    peer.banner()
    peer.write(preamble(Tag.HELLO, (length, 0, 0, 0)) + bytes(length // 2))
    assert length // 2 <= held_bytes(node) <= length + 1000
    assert node.faults == []


@by_role
def test_the_largest_banner_is_within_the_limit(role: str) -> None:
    node = new_node()
    peer = meet(role, node)
    raw = b"ceph v2\n\xff\xff" + encode_banner(1, 0)[10:] + bytes(65535 - 16)
    for start in range(0, len(raw) - 1, 5000):
        peer.write(raw[start : min(start + 5000, len(raw) - 1)])
        assert held_bytes(node) < LIMIT_BYTES
    assert node.faults == []


@pytest.mark.parametrize("count", [64, 65, 31_000])
def test_long_lists_of_choices_are_a_fault_at_once(count: int) -> None:
    node = new_node()
    peer = meet("acceptor", node)
    peer.banner()
    peer.hello()
    peer.send(AuthRequest(AuthMethod.NONE, [99] * count, b""))
    assert node.faults == [FaultReason.MALFORMED if count > 64 else FaultReason.AUTH_METHOD]
    assert peer.closed is (count > 64)
    for methods, modes in ([1] * count, [1]), ([1], [1] * count):
        node = new_node()
        peer = meet("connector", node)
        peer.banner()
        peer.hello()
        peer.expect(AuthRequest)
        peer.send(AuthBadMethod(AuthMethod.NONE, -95, methods, modes))
        assert (FaultReason.MALFORMED in node.faults) is (count > 64)


@pytest.mark.parametrize("count", [64, 65, 3000])
def test_long_lists_of_addresses_are_a_fault(count: int) -> None:
    node = new_node()
    peer = meet("acceptor", node)
    peer.handshake(until=peer.ident)
    others = (EntityAddr.from_host("10.9.0.1", 1 + number % 60_000, AddressType.MSGR2) for number in range(count))
    peer.send(peer.client_ident(addrs=AddrVec(tuple(others))))
    assert node.faults == [FaultReason.MALFORMED] * (count > 64)


@pytest.mark.parametrize("auth", ["none", "cephx"])
@pytest.mark.parametrize("payload_bytes", [0, 1000, 100_000])
def test_endless_auth_requests(auth: str, payload_bytes: int) -> None:
    node = new_node(auth=auth)
    peer = meet("acceptor", node)
    peer.banner()
    peer.hello()
    requests = [AuthRequest(AuthMethod.GSS, [], bytes(payload_bytes))] * PER_WRITE
    talk_for_ever(node, peer, lambda: peer.send(*requests))
    assert node.faults[-1] is FaultReason.OVERSIZE


class StubbornClient:
    """A client with an answer to everything, as one with many methods or many rounds would have."""

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: object) -> "StubbornClient":
        return self

    def start(self) -> AuthOpening:
        return AuthOpening(AuthMethod.CEPHX, b"")

    def bad_method(self, result: int, allowed_methods: list[int]) -> AuthOpening:
        return self.start()

    def more(self, payload: bytes) -> bytes:
        return b"more"

    def done(self, global_id: int, con_mode: ConMode, payload: bytes) -> AuthResult:
        return AuthResult(global_id)


@pytest.mark.parametrize(
    "answer", [AuthReplyMore(b""), AuthReplyMore(bytes(100_000)), AuthBadMethod(2, -1, [], [])]
)
def test_endless_auth_answers(answer: AuthReplyMore | AuthBadMethod) -> None:
    name = EntityName(EntityType.OSD, 1)
    sample = new_endpoint(name, "v2:10.0.0.1:6801/1")
    endpoint = Endpoint(name, sample.addrs, rng=sample.rng, auth_client=StubbornClient(), tracing=True)
    node = Node(endpoint)
    peer = meet("connector", node)
    peer.banner()
    peer.hello()
    talk_for_ever(node, peer, lambda: peer.send(*[answer] * PER_WRITE))
    assert node.faults == [FaultReason.OVERSIZE]


@by_role
@pytest.mark.parametrize(("auth", "mode"), [("none", ConMode.CRC), ("cephx", ConMode.SECURE)])
def test_ready_link_holds_no_handshake_bytes(role: str, auth: str, mode: ConMode) -> None:
    node = new_node(auth=auth, mode=mode)
    meet(role, node, auth=auth, mode=mode).handshake()
    assert held_bytes(node) == 0


def test_the_small_limit_ends_with_the_signature() -> None:
    node = new_node(max_preauth_frame_bytes=200)
    peer = meet("acceptor", node).handshake()
    peer.write(peer.message(1, data=bytes(100_000)))
    assert node.tids == [1]


@by_role
@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_the_signature_itself_is_under_the_small_limit(role: str, mode: ConMode) -> None:
    node = new_node(auth="cephx", mode=mode)
    peer = meet(role, node, auth="cephx", mode=mode)
    peer.handshake(until=peer.signature)
    peer.write(peer.writer.control(Tag.AUTH_SIGNATURE, bytes(200_000)))
    assert node.faults == [FaultReason.OVERSIZE]


@by_role
def test_an_authenticated_peer_is_held_to_the_large_limit(role: str) -> None:
    node = new_node(max_frame_bytes=1 << 20)
    peer = meet(role, node).handshake()
    peer.write(preamble(Tag.MESSAGE, (41, 0, 0, 1 << 20), segments=4))
    assert node.faults == [FaultReason.OVERSIZE]
