"""Effects of the virtual network's faults on streams and dials."""

import pytest

from messenger.errors import FaultReason
from tests.toolkit.lab.sim.conftest import Pair
from toolkit.errors import Unsupported
from toolkit.network.faults import delayed
from toolkit.network.state import GilbertElliott, LinkState, RandomLoss

RESET = (FaultReason.SOCKET, "connection reset by peer")
EOF = (FaultReason.EOF, "")


def partition(pair: Pair, a: str, b: str) -> None:
    pair.network.block(a, b)
    pair.network.block(b, a)


def test_bytes_arrive_in_order_whatever_their_latencies(pair: Pair) -> None:
    near, far = pair.stream()
    chunks = [bytes([number]) * 5 for number in range(100)]
    for chunk in chunks:
        near.write(chunk)
    far.write(b"back")
    pair.run()
    assert far.received == b"".join(chunks)
    assert near.received == b"back"
    assert near.written == 500


def test_end_of_a_stream_arrives_after_the_written_bytes(pair: Pair) -> None:
    near, far = pair.stream()
    near.write(b"last words")
    near.close()
    far.write(b"nobody reads this")
    pair.run()
    assert (far.received, far.broken) == (b"last words", [EOF])
    assert (near.received, near.broken) == (b"", [])
    far.close()
    assert not pair.network.between("a", "b")


def test_hosts_may_dial_as_often_as_they_like(pair: Pair) -> None:
    """A dialling host has fewer ports than a long run has dials."""
    for number in range(26_000):
        pair.a.dial(pair.b, number).close(pair.a)
        if number % 10_000 == 0:
            pair.run()
    near, far = pair.stream()
    near.write(b"still here")
    pair.run()
    assert far.received == b"still here"


# ---- partitions


def test_partition_holds_bytes_back_until_it_is_healed(pair: Pair) -> None:
    near, far = pair.stream()
    partition(pair, "a", "b")
    near.write(b"one")
    far.write(b"two")
    pair.run(100.0)
    assert (near.received, far.received, near.written) == (b"", b"", 0)
    near.write(b" more")
    pair.network.heal("a", "b")
    pair.run()
    assert (near.received, far.received) == (b"two", b"one more")


def test_partition_holds_bytes_in_flight(pair: Pair) -> None:
    near, far = pair.stream()
    near.write(b"one")
    partition(pair, "b", "a")
    pair.run()
    assert far.received == b""
    pair.network.heal()
    pair.run()
    assert far.received == b"one"


def test_one_way_partition_leaves_the_other_way_open(pair: Pair) -> None:
    near, far = pair.stream()
    pair.network.block("a", "b")
    near.write(b"one")
    far.write(b"two")
    pair.run()
    assert (near.received, far.received) == (b"two", b"")


def test_block_holds_back_the_end_of_a_stream(pair: Pair) -> None:
    near, far = pair.stream()
    pair.network.block("a", "b")
    near.write(b"bye")
    near.close()
    pair.run(60.0)
    assert not far.broken
    pair.network.heal("a", "b")
    pair.run()
    assert (far.received, far.broken) == (b"bye", [EOF])


def test_crash_is_not_visible_across_a_partition(pair: Pair) -> None:
    near, _ = pair.stream()
    partition(pair, "a", "b")
    pair.b.crash()
    pair.run(60.0)
    assert not near.broken
    pair.network.heal()
    pair.run()
    assert near.broken == [EOF]


@pytest.mark.parametrize("blocked", [("a", "b"), ("b", "a")])
def test_dial_stays_unanswered_while_either_way_is_blocked(pair: Pair, blocked: tuple[str, str]) -> None:
    pair.network.block(*blocked)
    wire = pair.a.dial(pair.b)
    pair.run(5.0)
    assert not pair.a.log
    assert not pair.b.log
    pair.network.heal("a", "b")
    pair.run()
    assert [what for _, what, _ in pair.a.log] == ["opened"]
    pair.a.sockets[wire].write(b"hello")
    pair.run()
    assert pair.b.sockets[wire].received == b"hello"


def test_dial_given_up_during_a_partition_never_arrives(pair: Pair) -> None:
    partition(pair, "a", "b")
    wire = pair.a.dial(pair.b)
    pair.run()
    pair.a.sockets[wire].close()
    pair.network.heal()
    pair.run()
    assert not pair.b.log
    assert not pair.network.between("a", "b")


def test_healing_two_hosts_leaves_others_cut_off(pair: Pair) -> None:
    partition(pair, "a", "b")
    partition(pair, "a", "c")
    pair.network.heal("a", "c")
    assert pair.network.path("a", "b").blocked
    assert not pair.network.path("c", "a").blocked
    pair.network.heal("b")
    assert not pair.network.path("a", "b").blocked


# ---- dials


def test_refused_dial_is_reported_at_once(pair: Pair) -> None:
    pair.network.refuse("a", "b")
    wire = pair.a.dial(pair.b)
    pair.run(0.1)
    assert [reason for reason, _ in pair.a.sockets[wire].broken] == [FaultReason.REFUSED]
    assert not pair.b.log
    pair.network.refuse("a", "b", refused=False)
    pair.stream()


def test_dial_of_a_dead_host_is_refused(pair: Pair) -> None:
    wire = pair.a.dial(pair.b)
    pair.b.crash()
    pair.run()
    assert [reason for reason, _ in pair.a.sockets[wire].broken] == [FaultReason.REFUSED]


def test_late_dial_is_overtaken_by_the_next(pair: Pair) -> None:
    pair.network.delay_dial("a", "b", 5.0)
    first, second = pair.a.dial(pair.b, 1), pair.a.dial(pair.b, 2)
    pair.run(10.0)
    assert [wire for _, what, wire in pair.b.log if what == "accepted"] == [second, first]


# ---- pace


def test_slow_link_delays_bytes_and_reports_backpressure(pair: Pair) -> None:
    near, far = pair.stream()
    pair.network.set_link("a", "b", LinkState(rate_bits_per_s=8000))
    near.write(bytes(1500))
    near.write(bytes(500))
    far.write(bytes(5000))
    pair.run(1.0)
    assert 900 <= len(far.received) <= 1100
    assert near.written == len(far.received)
    assert len(near.received) == 5000
    pair.run(1.1)
    assert len(far.received) == 2000


def test_slow_reader_reads_the_rest_at_once_when_healed(pair: Pair) -> None:
    near, far = pair.stream()
    pair.network.set_link("a", "b", LinkState(rate_bits_per_s=80))
    near.write(bytes(1500))
    pair.run(1.0)
    assert len(far.received) < 20
    pair.network.heal("a", "b")
    pair.run(0.1)
    assert len(far.received) == 1500


def test_delay_is_one_way_and_keeps_order(pair: Pair) -> None:
    near, far = pair.stream()
    pair.network.set_link("a", "b", LinkState(**delayed(2.0, 1.0)))
    for number in range(10):
        near.write(bytes([number]))
    far.write(b"x")
    pair.run(1.9)
    assert (far.received, near.received) == (b"", b"x")
    pair.run(1.2)
    assert far.received == bytes(range(10))


# ---- streams that break


def test_cut_breaks_both_sides_and_loses_what_is_on_its_way(pair: Pair) -> None:
    near, far = pair.stream()
    near.write(b"lost")
    pair.network.cut("a", "b")
    pair.run()
    assert (near.broken, far.broken, far.received) == ([RESET], [RESET], b"")


def test_half_close_ends_one_direction_only(pair: Pair) -> None:
    near, far = pair.stream()
    near.write(b"last")
    pair.network.half_close("a", "b")
    pair.run()
    assert (far.received, far.broken, near.broken) == (b"last", [EOF], [])
    far.write(b"still here")
    pair.run()
    assert near.received == b"still here"
    near.write(b"not any more")
    pair.run()
    assert [detail for _, detail in near.broken] == ["broken pipe"]
    far.close()
    near.close()
    assert not pair.network.between("a", "b")


def test_half_open_stream_is_noticed_by_writing_only(pair: Pair) -> None:
    near, far = pair.stream()
    pair.network.half_open("a", "b")
    pair.run(100.0)
    assert len(far.broken) == 1
    far.close()
    pair.run(100.0)
    assert not near.broken
    near.write(b"anybody?")
    pair.run()
    assert near.broken == [RESET]
    assert not pair.network.between("a", "b")


def test_reset_of_a_half_open_stream_waits_behind_a_partition(pair: Pair) -> None:
    near, _ = pair.stream()
    pair.network.half_open("a", "b")
    pair.network.block("b", "a")
    near.write(b"anybody?")
    pair.run(100.0)
    assert not near.broken
    pair.network.heal()
    pair.run()
    assert near.broken == [RESET]


@pytest.mark.parametrize("sender", ["a", "b"])
@pytest.mark.parametrize("byte", [0, 1, 7, 12])
def test_cut_at_a_byte_lets_exactly_that_many_pass(pair: Pair, sender: str, byte: int) -> None:
    bytes_cut = []
    pair.network.cut_by_byte = lambda _wire, name, count: bytes_cut.append((name, count))
    pair.network.cut_at_byte(sender, "b" if sender == "a" else "a", byte, stream=2)
    pair.stream()
    ends = dict(zip("ab", pair.stream(), strict=True))
    writer = ends.pop(sender)
    (reader,) = ends.values()
    for chunk in (b"hello ", b"world!", b"unheard"):
        writer.write(chunk)
    pair.run()
    assert reader.received == b"hello world!"[:byte]
    assert writer.broken == reader.broken == [RESET]
    assert bytes_cut == [(sender, byte)]


def test_closed_streams_are_removed_from_the_network(pair: Pair) -> None:
    for _ in range(50):
        near, far = pair.stream()
        near.close()
        pair.run()
        far.close()
        pair.run()
    assert not pair.network.between("a", "b")


# ---- links as on every network


def test_link_returns_the_state_that_was_set(pair: Pair) -> None:
    state = LinkState(**delayed(0.2, 0.5), rate_bits_per_s=8000, loss=RandomLoss(percent=5))
    pair.network.set_link("a", "b", state)
    assert pair.network.link("a", "b") == state
    assert pair.network.link("b", "a").is_clear
    pair.network.heal()
    assert pair.network.link("a", "b").is_clear


@pytest.mark.parametrize("state", [{"duplicate_percent": 1}, {"loss": GilbertElliott(to_bad_percent=1)}])
def test_simulated_network_does_not_support_packet_faults(pair: Pair, state: dict[str, object]) -> None:
    with pytest.raises(Unsupported, match="a simulated network has no packets: --backend netns"):
        pair.network.set_link("a", "b", LinkState(**state))


def test_one_direction_is_unblocked_alone(pair: Pair) -> None:
    near, far = pair.stream()
    partition(pair, "a", "b")
    near.write(b"one")
    far.write(b"two")
    pair.network.unblock("a", "b")
    pair.run()
    assert (far.received, near.received) == (b"one", b"")
    assert pair.network.is_blocked("b", "a")
