"""Disputed rules of the data phase, every setting, on both protocols where it applies."""

from typing import Any

import pytest

from messenger.cephx.exchange import ConMode
from messenger.config import Config
from messenger.errors import FaultReason
from messenger.link import Protocol
from messenger.outputs import EventKind
from messenger.session.policy import LOSSLESS_PEER, LOSSY_CLIENT, STATELESS_SERVER, Policy, ThrottleLimit
from messenger.session.session import Session, SessionState
from messenger.v1 import wire as v1
from messenger.v2 import wire as v2
from messenger.v2.preamble import build_preamble
from tests.support import raw_peer, raw_v1
from tests.support.frames import crc_frame
from tests.support.network import Pair
from tests.support.node import Node, new_node

UNKNOWN_TYPE = 0x7F01
ABORTED = 0x01

Peer = Any
"""A raw peer of either protocol; what is used here they have in common."""

protocols = pytest.mark.parametrize("protocol", ["v1", "v2"])


def ready(protocol: str, role: str = "connector", **options: object) -> tuple[Node, Peer, Session]:
    """A node with an open session, the raw peer of it, and the session."""
    options = {"policy": LOSSLESS_PEER} | options
    if protocol == "v1":
        node = raw_v1.new_v1_node(**options)
        peer: Peer = raw_v1.meet(role, node).handshake()
    else:
        node = new_node(**options)
        peer = raw_peer.meet(role, node).handshake()
    return node, peer, node.endpoint.sessions[0]


def ack(protocol: str, seq: int) -> object:
    return v1.Ack(seq) if protocol == "v1" else v2.Ack(seq)


# ---- skipped_seq (SQ-03)


@protocols
def test_a_gap_is_accepted_and_counted(protocol: str) -> None:
    node, peer, session = ready(protocol)
    peer.send_messages(1, 3)
    assert (node.tids, node.faults) == ([1, 3], [])
    assert (session.in_seq, session.skipped_messages) == (3, 1)
    assert node.endpoint.counters.skipped_messages == 1


@protocols
def test_a_gap_is_a_fault(protocol: str) -> None:
    node, peer, session = ready(protocol, skipped_seq="fault")
    peer.send_messages(1, 2, 4, 5)
    assert (node.tids, session.in_seq) == ([1, 2], 2)
    assert node.faults == [FaultReason.SKIPPED_SEQ]
    assert "seq 4 after 2" in node.fault_texts[0]
    assert (peer.closed, session.skipped_messages) == (True, 1)


@protocols
def test_missing_messages_are_replayed_on_the_next_link(protocol: str) -> None:
    """A fault costs nothing: the peer sends again what in_seq says is missing."""
    pair = Pair(LOSSLESS_PEER, protocol=Protocol(protocol), skipped_seq="fault")
    mine, _ = pair.established()
    pair.a.send(mine, 1)
    pair.drive()
    pipe = pair.wire.to_acceptor
    pipe.held = True
    pair.a.send(mine, 2)
    pair.drive()
    pipe.position = len(pipe.log)  # the second one is lost on the way
    pair.a.send(mine, 3)
    pipe.held = False
    pair.pass_time(1.0)
    assert pair.b.faults == [FaultReason.SKIPPED_SEQ]
    assert pair.b.tids == [1, 2, 3]


# ---- an old seq is dropped and reading goes on, whatever is set (SQ-02)


@protocols
@pytest.mark.parametrize("implementation", ["classic", "crimson", "kernel"])
def test_every_profile_delivers_messages_after_an_old_seq(protocol: str, implementation: str) -> None:
    rules = Config.like(implementation)
    node, peer, session = ready(protocol, skipped_seq=rules.skipped_seq, unknown_message=rules.unknown_message)
    peer.send_messages(1, 2)
    peer.send_messages(1)
    peer.send_messages(3)
    assert (node.tids, node.faults, session.old_messages) == ([1, 2, 3], [], 1)
    assert node.endpoint.snapshot()["dispatch_bytes"] == 0


# ---- ack_beyond_sent (SQ-05)


@protocols
def test_an_ack_from_the_future_acknowledges_all_sent_messages(protocol: str) -> None:
    node, peer, session = ready(protocol)
    node.send(session, 1, 2, 3)
    peer.pump()
    peer.send(ack(protocol, 1_000_000))
    assert (node.faults, session.acked_seq, len(session.queue.sent)) == ([], 3, 0)
    node.send(session, 4)
    peer.pump()
    assert (session.out_seq, len(session.queue.sent)) == (4, 1)


@protocols
@pytest.mark.parametrize("seq", [4, 1_000_000, 2**64 - 1])
def test_an_ack_from_the_future_is_a_fault(protocol: str, seq: int) -> None:
    node, peer, session = ready(protocol, ack_beyond_sent="fault")
    node.send(session, 1, 2, 3)
    peer.pump()
    peer.send(ack(protocol, 3))
    assert (node.faults, session.acked_seq) == ([], 3)
    peer.send(ack(protocol, seq))
    assert node.faults == [FaultReason.UNSENT_SEQ]
    assert f"ack {seq}, 3 was the last one sent" in node.fault_texts[0]


def test_the_ack_in_a_message_counts_as_well() -> None:
    node, peer, session = ready("v2", ack_beyond_sent="fault")
    node.send(session, 1)
    peer.pump()
    peer.send_messages(1, ack_seq=1)
    assert (node.tids, node.faults) == ([1], [])
    peer.send_messages(2, ack_seq=2)
    assert (node.tids, node.faults) == ([1], [FaultReason.UNSENT_SEQ])


# ---- server_keepalive


@protocols
def test_a_keepalive_is_answered_in_either_role(protocol: str) -> None:
    for role in raw_peer.ROLES:
        node, peer, _ = ready(protocol, role)
        peer.send(v1.KeepAlive2(5, 7) if protocol == "v1" else v2.KeepAlive2(5, 7))
        (answer,) = peer.rest()
        assert (answer.seconds, answer.nanoseconds, node.faults) == (5, 7, [])


@protocols
def test_keepalive_of_the_dialled_peer_is_a_fault(protocol: str) -> None:
    faults = {}
    for role in raw_peer.ROLES:
        node, peer, _ = ready(protocol, role, server_keepalive="fault")
        peer.send(v1.KeepAlive2(5, 7) if protocol == "v1" else v2.KeepAlive2(5, 7))
        faults[role] = node.faults
    assert faults == {"connector": [FaultReason.UNEXPECTED_FRAME], "acceptor": []}


# ---- aborted_message (SQ-18); on v1 an abort always is a fault


def aborted(seq: int) -> bytes:
    """A MESSAGE with a front whose sender gave up."""
    header = v2.MESSAGE_HEADER.pack(seq, seq, 2, 127, 1, 0, 0, 0, 3, 1, 0)
    return crc_frame(build_preamble(17, (len(header), 5, 0, 0)), header, (b"front",), ABORTED)


def test_an_aborted_message_is_dropped() -> None:
    """Its seq is used again: it was never sent."""
    node, peer, session = ready("v2")
    peer.send_messages(1)
    peer.write(aborted(2))
    peer.send_messages(2)
    assert (node.tids, node.faults, session.in_seq) == ([1, 2], [], 2)
    assert session.skipped_messages == 0


def test_an_aborted_message_is_a_fault() -> None:
    node, peer, _ = ready("v2", aborted_message="fault")
    peer.send_messages(1)
    peer.write(aborted(2))
    assert (node.tids, node.faults, peer.closed) == ([1], [FaultReason.ABORTED], True)


@pytest.mark.parametrize("rule", ["drop", "fault"])
def test_an_aborted_message_of_v1_is_a_fault_in_any_case(rule: str) -> None:
    node, peer, _ = ready("v1", aborted_message=rule)
    raw = bytearray(peer.message(1, data=b"data"))
    raw[-1] &= ~1  # COMPLETE
    peer.write(bytes(raw))
    assert (node.tids, node.faults) == ([], [FaultReason.ABORTED])


# ---- control_segments (MF-09)


def several(*segments: bytes) -> bytes:
    """An ACK frame with several segments."""
    lengths = tuple(len(segment) for segment in (*segments, b"", b"", b"")[:4])
    return crc_frame(build_preamble(v2.Tag.ACK, lengths), segments[0], segments[1:])  # type: ignore[arg-type]


ONE, TWO = (seq.to_bytes(8, "little") for seq in (1, 2))


@pytest.mark.parametrize("segments", [(ONE, TWO), (ONE, b"", TWO), (b"", b"", b"", TWO), (ONE, ONE, ONE, TWO)])
def test_the_last_segment_of_a_control_frame_counts(segments: tuple[bytes, ...]) -> None:
    node, peer, session = ready("v2", control_segments="last")
    node.send(session, 1, 2, 3)
    peer.pump()
    peer.write(several(*segments))
    assert (session.acked_seq, node.faults) == (2, [])


@pytest.mark.parametrize("segments", [(ONE, TWO), (b"", TWO), (ONE, ONE, ONE, TWO)])
def test_a_control_frame_with_several_segments_is_a_fault(segments: tuple[bytes, ...]) -> None:
    node, peer, session = ready("v2")
    node.send(session, 1, 2, 3)
    peer.pump()
    peer.write(several(*segments))
    assert (session.acked_seq, node.faults) == (0, [FaultReason.FRAME])


def test_the_last_segment_counts_in_the_handshake_too() -> None:
    for rule, fault in (("last", []), ("one", [FaultReason.FRAME])):
        node = new_node(control_segments=rule)
        peer = raw_peer.meet("acceptor", node)
        peer.banner()
        hello = v2.Hello(peer.name.type, node.endpoint.addrs.front).encode()
        preamble = build_preamble(v2.Tag.HELLO, (1, len(hello), 0, 0))
        peer.write(crc_frame(preamble, b"\0", (hello,)))
        assert node.faults == fault


# ---- segment_alignment (MF-06)


@pytest.mark.parametrize("features", [0, 1])
@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_alignments_are_looked_at_on_every_kind_of_link(
    features: int, mode: ConMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames whose data is aligned to 3 bytes."""
    monkeypatch.setattr("messenger.v2.preamble._DATA_ALIGN", 3)
    for rule in ("ignored", "checked"):
        node = new_node(
            policy=LOSSLESS_PEER, mode=mode, auth="cephx", msgr2_features=features, segment_alignment=rule
        )
        peer = raw_peer.meet("connector", node, auth="cephx", mode=mode, features=features).handshake()
        peer.write(peer.message(1, data=b"data"))
        assert (node.tids, node.faults) == (([1], []) if rule == "ignored" else ([], [FaultReason.FRAME]))


def test_alignments_are_looked_at_from_when_the_rule_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On links that open from then on."""
    monkeypatch.setattr("messenger.v2.preamble._DATA_ALIGN", 3)
    node = new_node(policy=LOSSLESS_PEER)
    first = raw_peer.meet("connector", node).handshake()
    node.endpoint.configure(segment_alignment="checked")
    first.write(first.message(1, data=b"data"))
    first.hang_up()
    node.send(node.endpoint.sessions[0], 1)
    second = raw_peer.RawPeer(node).accept()
    second.handshake(until=second.ident)
    second.expect(v2.SessionReconnect)
    second.send(v2.SessionReconnectOk(0))
    second.write(second.message(2, data=b"data"))
    assert (node.tids, node.faults[-1]) == ([1], FaultReason.FRAME)


# ---- unknown_message (MF-12)


def unknown(protocol: str, peer: Peer, seq: int) -> bytes:
    """A message of a type that does not exist."""
    if protocol == "v1":
        return bytes(peer.message(seq, type_=UNKNOWN_TYPE, data=b"data"))
    header = v2.MESSAGE_HEADER.pack(seq, seq, UNKNOWN_TYPE, 127, 1, 0, 0, 0, 3, 1, 0)
    pieces: list[Any] = []
    peer.writer.message(pieces, header, b"", b"", b"data")
    return b"".join(pieces)


@protocols
def test_an_unknown_message_is_delivered_as_bytes(protocol: str) -> None:
    node, peer, _ = ready(protocol)
    peer.write(unknown(protocol, peer, 1))
    ((_, message),) = node.delivered
    assert (message.type, bytes(message.data), node.faults) == (UNKNOWN_TYPE, b"data", [])


@protocols
def test_an_unknown_message_is_a_fault(protocol: str) -> None:
    node, peer, session = ready(protocol, unknown_message="fault")
    peer.send_messages(1)
    peer.write(unknown(protocol, peer, 2))
    assert (node.tids, node.faults, session.in_seq) == ([1], [FaultReason.UNKNOWN_MESSAGE], 1)


@protocols
@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSY_CLIENT])
def test_an_unknown_message_is_dropped_but_acknowledged(protocol: str, policy: Policy) -> None:
    node, peer, session = ready(protocol, "acceptor", policy=policy, unknown_message="drop")
    peer.write(unknown(protocol, peer, 1))
    assert (node.tids, session.in_seq, node.faults) == ([], 1, [])
    assert peer.rest() == ([] if policy.lossy else [ack(protocol, 1)])
    peer.send_messages(2)
    assert (node.tids, session.skipped_messages) == ([2], 0)
    assert node.endpoint.snapshot()["dispatch_bytes"] == 0


@protocols
def test_dropped_messages_release_their_throttles(protocol: str) -> None:
    throttled = STATELESS_SERVER.throttled(messages=ThrottleLimit("some", 1), size_bytes=ThrottleLimit("few", 8))
    node, peer, _ = ready(protocol, "acceptor", policy=throttled, unknown_message="drop")
    for seq in range(1, 6):
        peer.write(unknown(protocol, peer, seq))
    peer.send_messages(6)
    assert node.tids == [6]
    assert [node.endpoint.throttles.named(name).value for name in ("some", "few")] == [0, 0]


# ---- standby_keepalive (LS-05)


@protocols
@pytest.mark.parametrize("whose", ["a", "b"])
def test_a_keepalive_alone_wakes_a_session_in_standby(protocol: str, whose: str) -> None:
    pair, sessions = in_standby(protocol, standby_keepalive="wake")
    node, session = getattr(pair, whose), sessions[whose]
    node.endpoint.send_keepalive(session, node.now)
    pair.pass_time(1.0)
    assert [session.state for session in sessions.values()] == [SessionState.READY] * 2
    assert session.keepalive_acked_s > 0


@protocols
@pytest.mark.parametrize("whose", ["a", "b"])
def test_a_keepalive_alone_waits_for_the_next_link(protocol: str, whose: str) -> None:
    pair, sessions = in_standby(protocol, standby_keepalive="stay")
    node, session = getattr(pair, whose), sessions[whose]
    node.endpoint.send_keepalive(session, node.now)
    pair.pass_time(100.0)
    assert [session.state for session in sessions.values()] == [SessionState.STANDBY] * 2
    node.send(session, 1)
    pair.pass_time(1.0)
    assert [session.state for session in sessions.values()] == [SessionState.READY] * 2
    assert session.keepalive_acked_s > 0
    assert EventKind.RESET not in pair.a.kinds + pair.b.kinds


def in_standby(protocol: str, **options: object) -> tuple[Pair, dict[str, Session]]:
    pair = Pair(LOSSLESS_PEER, protocol=Protocol(protocol), **options)
    mine, theirs = pair.established()
    pair.wire.cut()
    pair.drive()
    assert (mine.state, theirs.state) == (SessionState.STANDBY, SessionState.STANDBY)
    return pair, {"a": mine, "b": theirs}
