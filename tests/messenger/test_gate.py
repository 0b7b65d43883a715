"""Throttles of policies: reading stops, resumes, and nothing is lost (docs/protocol.md §3.10; family TH)."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.exchange import ConMode
from messenger.errors import LocalError
from messenger.link import Protocol
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_SERVER,
    Policy,
    ThrottleLimit,
)
from messenger.session.session import Session, SessionState
from messenger.session.throttle import Throttle
from tests.support.network import Pair
from tests.support.node import new_node
from tests.support.raw_peer import RawPeer, meet

SIZE = 100


def throttled(policy: Policy, *, messages: int | None = None, size_bytes: int | None = None) -> Policy:
    """A policy with throttles of these limits."""
    return policy.throttled(
        messages=None if messages is None else ThrottleLimit("messages", messages),
        size_bytes=None if size_bytes is None else ThrottleLimit("bytes", size_bytes),
    )


@dataclass
class Hoarder:
    """A pair whose ``b`` keeps what it gets; its policy towards ``a`` has throttles."""

    pair: Pair
    mine: Session
    theirs: Session

    def release(self, count: int) -> None:
        """``b`` is done with so many messages, the oldest first."""
        node = self.pair.b
        for _ in range(count):
            session, message = self.held.pop(0)
            node.endpoint.release(message.held_bytes, node.now, session)
        self.pair.drive()

    @property
    def held(self) -> list:
        return self.pair.b.delivered

    @property
    def values(self) -> dict[str, int]:
        """Return the value of each throttle of ``b``."""
        return {throttle.name: throttle.value for throttle in self.pair.b.endpoint.throttles}


def hoarder(
    policy: Policy = LOSSLESS_CLIENT,
    peer_policy: Policy = STATEFUL_SERVER,
    *,
    mode: ConMode = ConMode.CRC,
    protocol: Protocol = Protocol.V2,
    **limits,
) -> Hoarder:
    options = {name: limits.pop(name) for name in list(limits) if name.startswith("ms_")}
    pair = Pair(policy, throttled(peer_policy, **limits), auth="cephx", mode=mode, protocol=protocol, **options)
    pair.b.hoarding = True
    return Hoarder(pair, *pair.established())


# ---- the rule


@pytest.mark.parametrize(
    ("held", "amount", "admitted"),
    [
        (0, 10, True),
        (0, 11, True),  # larger than the whole throttle
        (1, 9, True),
        (1, 10, False),  # exactly the limit needs an empty throttle
        (10, 0, True),
        (10, 1, False),
        (10, 11, True),  # larger than the whole throttle, which is not beyond its limit
        (11, 11, False),
        (11, 0, False),
    ],
)
def test_throttle_admits_up_to_its_limit_or_one_larger_amount(held: int, amount: int, *, admitted: bool) -> None:
    throttle = Throttle(10)
    throttle.take(held)
    assert throttle.admits(amount) is admitted


# ---- counting messages and bytes


KINDS = [(Protocol.V2, ConMode.CRC), (Protocol.V2, ConMode.SECURE), (Protocol.V1, ConMode.CRC)]


@pytest.mark.parametrize(("protocol", "mode"), KINDS)
def test_reading_stops_at_the_limit_of_messages_and_resumes(protocol: Protocol, mode: ConMode) -> None:
    """TH-01."""
    hoard = hoarder(messages=3, mode=mode, protocol=protocol)
    hoard.pair.a.send(hoard.mine, *range(1, 11), size_bytes=SIZE)
    hoard.pair.drive()
    assert [message.tid for _, message in hoard.held] == [1, 2, 3]
    assert hoard.theirs.in_seq == 3
    assert hoard.theirs.link is not None
    assert hoard.theirs.link.paused
    hoard.release(2)
    assert [message.tid for _, message in hoard.held] == [3, 4, 5]
    for _ in range(8):
        hoard.release(1)
    assert hoard.values == {"messages": 0}
    assert hoard.theirs.in_seq == 10
    assert hoard.pair.a.endpoint.snapshot()["sent"] == 0


@pytest.mark.parametrize(("protocol", "mode"), KINDS)
@pytest.mark.parametrize("size_bytes", [SIZE, 70_000])
def test_reading_stops_at_the_limit_of_bytes_and_resumes(
    protocol: Protocol, mode: ConMode, size_bytes: int
) -> None:
    """TH-02, also with messages that get a buffer of their own."""
    hoard = hoarder(size_bytes=int(2.5 * size_bytes), mode=mode, protocol=protocol)
    hoard.pair.a.send(hoard.mine, *range(1, 8), size_bytes=size_bytes)
    hoard.pair.drive()
    assert len(hoard.held) == 2
    seen = []
    while hoard.held:
        assert hoard.values["bytes"] <= 2.5 * size_bytes
        seen.append(hoard.held[0][1])
        hoard.release(1)
    assert [message.tid for message in seen] == list(range(1, 8))
    assert {len(message.data) for message in seen} == {size_bytes}
    assert all(message.data[:8] == b"%08d" % message.tid for message in seen)
    assert hoard.values == {"bytes": 0}


def test_a_message_larger_than_the_throttle_passes_alone() -> None:
    """TH-05."""
    hoard = hoarder(size_bytes=SIZE)
    hoard.pair.a.send(hoard.mine, 1, 2, size_bytes=10 * SIZE)
    hoard.pair.drive()
    assert [message.tid for _, message in hoard.held] == [1]
    hoard.release(1)
    assert [message.tid for _, message in hoard.held] == [2]


def test_messages_without_bytes_pass_a_full_byte_throttle() -> None:
    hoard = hoarder(size_bytes=SIZE)
    hoard.pair.a.send(hoard.mine, 1, size_bytes=SIZE)
    hoard.pair.a.send(hoard.mine, 2, 3, size_bytes=0)
    hoard.pair.drive()
    assert [message.tid for _, message in hoard.held] == [1, 2, 3]


def test_limit_of_zero_is_no_limit() -> None:
    hoard = hoarder(messages=0, size_bytes=0)
    hoard.pair.a.send(hoard.mine, *range(50))
    hoard.pair.drive()
    assert len(hoard.held) == 50


def test_the_dispatch_throttle_comes_last_and_by_the_same_rule() -> None:
    """A message waits for the bytes it lacks although the throttle is not full."""
    hoard = hoarder(messages=10, ms_dispatch_throttle_bytes=250)
    hoard.pair.a.send(hoard.mine, 1, 2, 3, size_bytes=SIZE)
    hoard.pair.drive()
    assert len(hoard.held) == 2
    assert hoard.values == {"messages": 3}  # the third has its place already
    hoard.release(1)
    assert [message.tid for _, message in hoard.held] == [2, 3]


def test_all_peers_of_a_type_share_a_throttle_and_keepalives_pass_elsewhere() -> None:
    """TH-06: a peer that waits for nothing is not kept waiting."""
    node = new_node(policy=throttled(STATELESS_SERVER, messages=1))
    node.hoarding = True
    first = meet("acceptor", node).handshake()
    second = RawPeer(node, addr="v2:10.0.0.3:6803/3").dial().handshake()
    first.send_messages(1, 2)
    second.send_messages(1)
    assert [message.seq for _, message in node.delivered] == [1]
    assert first.paused
    assert second.paused
    node.endpoint.release(0, node.now, node.delivered[0][0])
    first.pump()
    second.pump()
    assert len(node.delivered) == 2
    assert node.delivered[1][0] is node.delivered[0][0]  # the link that waited longest comes first
    node.endpoint.release(0, node.now, node.delivered[1][0])
    second.pump()
    assert node.delivered[2][0] is not node.delivered[0][0]
    assert not first.paused


# ---- giving back


@pytest.mark.parametrize("protocol", Protocol)
def test_fault_releases_a_waiting_message_which_is_sent_again(protocol: Protocol) -> None:
    """TH-04, V1-17."""
    hoard = hoarder(messages=2, size_bytes=250, protocol=protocol)
    hoard.pair.a.send(hoard.mine, 1, size_bytes=200)
    hoard.pair.a.send(hoard.mine, 2, size_bytes=SIZE)
    hoard.pair.drive()
    assert hoard.values == {"messages": 2, "bytes": 200}  # the second message has its place, not its bytes
    hoard.pair.wire.cut()
    assert hoard.values == {"messages": 1, "bytes": 200}
    hoard.pair.drive()
    assert hoard.theirs.state is SessionState.READY
    hoard.release(1)
    assert [message.tid for _, message in hoard.held] == [2]
    hoard.release(1)
    assert hoard.values == {"messages": 0, "bytes": 0}
    assert hoard.pair.a.endpoint.snapshot()["sent"] == 0


@pytest.mark.parametrize("end", ["mark_down", "shutdown"])
def test_ending_a_session_that_waits(end: str) -> None:
    """TH-11."""
    hoard = hoarder(messages=1, size_bytes=SIZE)
    hoard.pair.a.send(hoard.mine, 1, 2, size_bytes=SIZE)
    hoard.pair.drive()
    if end == "mark_down":
        hoard.pair.b.mark_down(hoard.theirs)
    else:
        hoard.pair.b.endpoint.shutdown(hoard.pair.clock.now)
    hoard.pair.drive()
    assert hoard.theirs.state is SessionState.CLOSED
    assert hoard.pair.b.endpoint.waiting == 0
    hoard.release(1)
    assert hoard.values == {"messages": 0, "bytes": 0}


def test_a_fault_wakes_others_that_wait() -> None:
    node = new_node(policy=throttled(STATELESS_SERVER, messages=2, size_bytes=SIZE))
    node.hoarding = True
    first = meet("acceptor", node).handshake()
    second = RawPeer(node, addr="v2:10.0.0.3:6803/3").dial().handshake()
    first.write(first.message(1, data=bytes(SIZE)) + first.message(2, data=b"waits, and has a place"))
    second.send_messages(1)
    assert len(node.delivered) == 1
    assert second.paused
    first.hang_up()
    second.pump()
    assert len(node.delivered) == 2
    assert not second.paused


@pytest.mark.parametrize("role", ["acceptor", "connector"])
def test_duplicate_or_bad_messages_hold_no_throttle(role: str) -> None:
    node = new_node(policy=throttled(LOSSLESS_CLIENT, messages=2, size_bytes=SIZE))
    peer = meet(role, node).handshake()
    peer.send_messages(1, 2, 2, 1, 2, 1, 3)
    assert node.tids == [1, 2, 3]
    damaged = bytearray(peer.message(5, data=b"data"))
    damaged[-1] ^= 1
    peer.write(peer.message(4, data=b"data") + bytes(damaged))
    assert node.tids == [1, 2, 3, 4]
    assert [throttle.value for throttle in node.endpoint.throttles] == [0, 0]


def test_releasing_twice_is_the_callers_mistake() -> None:
    hoard = hoarder(messages=5)
    hoard.pair.a.send(hoard.mine, 1)
    hoard.pair.drive()
    ((session, message),) = hoard.held
    hoard.release(1)
    with pytest.raises(LocalError, match="released twice"):
        hoard.pair.b.endpoint.release(0, 0.0, session)
    assert message.tid == 1


def test_many_links_that_wait_are_woken_without_going_deep() -> None:
    node = new_node(policy=throttled(LOSSY_CLIENT, messages=1))
    node.hoarding = True
    peers = [RawPeer(node, addr=f"v2:10.0.1.{n % 250}:6803/{n}").dial().handshake() for n in range(1, 301)]
    for peer in peers:
        peer.send_messages(1)
    for done in range(300):
        session, _ = node.delivered[done]
        node.endpoint.release(0, node.now, session)
        node.pump()
    assert len(node.delivered) == 300
    assert node.endpoint.waiting == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from([0, 10, 40, 100, 300])),
        st.tuples(st.just("release"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("time"), st.integers(1, 20)),
    ),
    max_size=40,
)


@given(
    STEPS,
    st.sampled_from(Protocol),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([0, 50, 150]),
    st.sampled_from([0, 120]),
)
def test_every_message_is_delivered_once_and_released(
    steps: list[tuple[str, int]], protocol: Protocol, messages: int, size_bytes: int, dispatch_bytes: int
) -> None:
    hoard = hoarder(
        messages=messages, size_bytes=size_bytes, protocol=protocol, ms_dispatch_throttle_bytes=dispatch_bytes
    )
    seen: list[int] = []
    sent = 0
    throttles = {throttle.name: throttle for throttle in hoard.pair.b.endpoint.throttles}
    for step, amount in [*steps, *[("time", 20), ("release", 10_000)] * (len(steps) + 2)]:
        if step == "send":
            sent += 1
            hoard.pair.a.send(hoard.mine, sent, size_bytes=amount)
            hoard.pair.drive()
        elif step == "release":
            for _ in range(min(amount, len(hoard.held))):
                seen.append(hoard.held[0][1].tid)
                hoard.release(1)
        elif step == "cut":
            hoard.pair.wire.cut()
            hoard.pair.drive()
        else:
            hoard.pair.pass_time(amount)
        for throttle in throttles.values():
            assert throttle.value >= 0
            assert not throttle.limit or throttle.value <= throttle.limit + 300
    assert seen == list(range(1, sent + 1))
    assert set(hoard.values.values()) == {0}
    assert hoard.pair.b.endpoint.waiting == 0
    assert hoard.pair.a.endpoint.snapshot()["sent"] == 0
