from collections.abc import Iterable
from itertools import islice, pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.link_states import link_states
from toolkit.network.state import LinkState
from toolkit.network.wire.fate import Fate

MS = 1_000_000
Arrival = tuple[int, bytes]


def flip(frame: bytes, bit: int) -> bytes:
    damaged = bytearray(frame)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    return bytes(damaged)


def of(text: str) -> Fate[bytes]:
    return Fate(LinkState.from_text(text), flip)


def numbered(count: int, size: int = 100) -> list[bytes]:
    return [number.to_bytes(4, "big").ljust(size, b".") for number in range(count)]


def run(fate: Fate[bytes], frames: Iterable[bytes], every_ns: int = MS) -> list[Arrival]:
    """Send a frame every so often, and take each as soon as it is due; then wait for the last one."""
    arrivals: list[Arrival] = []

    def until(end_ns: int | None) -> None:
        while fate.next_ns is not None and (end_ns is None or fate.next_ns <= end_ns):
            at_ns = fate.next_ns
            arrivals.extend((at_ns, frame) for frame in fate.due(at_ns))

    for number, frame in enumerate(frames):
        until(number * every_ns)
        fate.offer([frame], number * every_ns)
    until(None)
    return arrivals


def order(arrivals: list[Arrival]) -> list[int]:
    return [int.from_bytes(frame[:4], "big") for _, frame in arrivals]


def delays_ms(arrivals: list[Arrival], every_ns: int = MS) -> list[float]:
    return [(at_ns - number * every_ns) / MS for number, (at_ns, _) in zip(order(arrivals), arrivals, strict=True)]


def test_a_clear_link_passes_packets_on_at_once() -> None:
    arrivals = run(Fate(LinkState(), flip), numbered(10))
    assert arrivals == [(number * MS, frame) for number, frame in enumerate(numbered(10))]


@given(link_states(), st.integers(0, 2**32))
def test_the_same_seed_is_the_same_fate(state: LinkState, seed: int) -> None:
    seeded = state.model_copy(update={"seed": seed})
    assert run(Fate(seeded, flip), numbered(30)) == run(Fate(seeded, flip), numbered(30))


def test_another_seed_is_another_fate() -> None:
    assert order(run(of("loss 50%, seed 1"), numbered(100))) != order(run(of("loss 50%, seed 2"), numbered(100)))
    assert order(run(of("loss 50%"), numbered(100))) != order(run(of("loss 50%"), numbered(100)))


@given(link_states())
def test_packets_arrive_after_sending_and_all_are_counted(state: LinkState) -> None:
    fate = Fate(state, flip)
    arrivals = run(fate, numbered(40))
    assert [at_ns for at_ns, _ in arrivals] == sorted(at_ns for at_ns, _ in arrivals)
    if not state.corrupt_percent:
        assert min(delays_ms(arrivals), default=0) >= 0
    counts = fate.counts
    assert counts.packets == 40
    assert counts.bytes == 4000
    assert counts.packets + counts.duplicated == counts.delivered + counts.lost + counts.overflowed
    assert counts.delivered == len(arrivals)
    assert fate.queued == 0


@given(link_states(), st.lists(st.integers(0, 50), max_size=40))
def test_polling_times_do_not_change_the_order_of_arrival(state: LinkState, pauses_ms: list[int]) -> None:
    """Everything that is due by a time arrives in the same order, however seldom one asks."""
    # A queue that is emptied later overflows earlier, and late packets are not overtaken any more.
    seeded = state.model_copy(update={"seed": 1, "limit_packets": 1000, "reorder_percent": 0.0})
    frames = numbered(len(pauses_ms))
    eager, lazy = Fate(seeded, flip), Fate(seeded, flip)
    seen: list[bytes] = []
    now_ns = 0
    for frame, pause_ms in zip(frames, pauses_ms, strict=True):
        now_ns += pause_ms * MS
        while eager.next_ns is not None and eager.next_ns <= now_ns:
            seen += eager.due(eager.next_ns)
        eager.offer([frame], now_ns)
        lazy.due(-1)
        lazy.offer([frame], now_ns)
    while eager.next_ns is not None:
        seen += eager.due(eager.next_ns)
    if not state.slot and not state.rate_bits_per_s:
        assert lazy.due(10**15) == seen


@given(link_states(), st.lists(st.integers(1, 5), max_size=8))
def test_packets_offered_together_have_the_fates_of_single_ones(state: LinkState, sizes: list[int]) -> None:
    # A slot draws its length when the queue is looked at, which is more often for single packets.
    seeded = state.model_copy(update={"seed": 1, "slot": None})
    together, single = Fate(seeded, flip), Fate(seeded, flip)
    frames = iter(numbered(sum(sizes)))
    for number, size in enumerate(sizes):
        bundle = list(islice(frames, size))
        together.offer(bundle, number * MS)
        for frame in bundle:
            single.offer([frame], number * MS)
    assert together.queued == single.queued
    assert together.due(10**15) == single.due(10**15)
    assert together.counts == single.counts


def test_delay() -> None:
    assert delays_ms(run(of("delay 50ms"), numbered(5))) == [50] * 5


def test_uniform_jitter_is_within_its_bounds_and_overtakes() -> None:
    arrivals = run(of("delay 50ms ± 20ms uniform, seed 1"), numbered(5000))
    found = delays_ms(arrivals)
    assert min(found) == pytest.approx(30, abs=0.1)
    assert max(found) == pytest.approx(70, abs=0.1)
    assert fmean(found) == pytest.approx(50, abs=1)
    assert order(arrivals) != sorted(order(arrivals))


@pytest.mark.parametrize("distribution", ["normal", "pareto", "paretonormal"])
def test_jitter_has_its_mean_and_deviation(distribution: str) -> None:
    found = delays_ms(run(of(f"delay 100ms ± 10ms {distribution}, seed 1"), numbered(5000)))
    assert fmean(found) == pytest.approx(100, abs=1)
    assert pstdev(found) == pytest.approx(10, rel=0.25)


def test_correlated_jitter_stays_near_the_previous_value() -> None:
    def steps(text: str) -> float:
        arrivals = run(of(text), numbered(3000))
        found = [delay for _, delay in sorted(zip(order(arrivals), delays_ms(arrivals), strict=True))]
        return fmean(abs(a - b) for a, b in pairwise(found)) / pstdev(found)

    assert steps("delay 50ms ± 20ms correlation 90%, seed 1") < 0.6 * steps("delay 50ms ± 20ms uniform, seed 1")


def test_duplicates_arrive_twice() -> None:
    fate = of("duplicate 100%")
    assert order(run(fate, numbered(3))) == [0, 0, 1, 1, 2, 2]
    assert fate.counts.duplicated == 3


def test_original_and_duplicate_are_lost_independently() -> None:
    fate = of("duplicate 100%, loss 50%, seed 1")
    arrived = order(run(fate, numbered(1000)))
    # Lost as an original, it arrives once; otherwise twice, unless the second one is lost as well.
    assert len(arrived) == pytest.approx(1000 * 0.5 + 500 * 1.5, rel=0.05)
    assert set(arrived) == set(range(1000))


def test_overtaking_packets_leave_at_once() -> None:
    fate = of("delay 10ms, reorder 25%, seed 1")
    arrivals = run(fate, numbered(1000))
    found = delays_ms(arrivals)
    assert set(found) == {0, 10}
    assert found.count(0) == fate.counts.reordered == pytest.approx(250, rel=0.15)
    assert order(arrivals) != list(range(1000))


def test_a_gap_lets_every_so_many_overtake() -> None:
    arrivals = run(of("delay 10ms, reorder 100% gap 5"), numbered(20))
    early = [number for number, delay in zip(order(arrivals), delays_ms(arrivals), strict=True) if delay == 0]
    assert early == [4, 9, 14, 19]


def test_corruption_flips_one_bit() -> None:
    fate = of("corrupt 100%, seed 1")
    for sent, (_, arrived) in zip(numbered(50), run(fate, numbered(50)), strict=True):
        difference = int.from_bytes(sent, "big") ^ int.from_bytes(arrived, "big")
        assert difference.bit_count() == 1
    assert fate.counts.corrupted == 50


def test_rate_gives_every_packet_its_time() -> None:
    # 100 bytes at 80 kbit/s take 10 ms each.
    arrivals = run(of("rate 80kbit"), numbered(5))
    assert [at_ns / MS for at_ns, _ in arrivals] == [10, 20, 30, 40, 50]
    slow_enough = run(of("rate 80kbit"), numbered(3), every_ns=15 * MS)
    assert [at_ns / MS for at_ns, _ in slow_enough] == [10, 25, 40]


def test_rate_and_delay_overlap() -> None:
    arrivals = run(of("delay 100ms, rate 80kbit"), numbered(3))
    assert [at_ns / MS for at_ns, _ in arrivals] == [110, 120, 130]


def test_full_queue_drops_new_packets() -> None:
    fate = of("delay 50ms, limit 3")
    assert order(run(fate, numbered(10))) == [0, 1, 2]
    assert fate.counts.overflowed == 7
    assert order(run(fate, numbered(2))) == [0, 1]


def test_slot_releases_all_waiting_packets() -> None:
    arrivals = run(of("slot 10ms"), numbered(30))
    # The first one opens a slot that begins 10 ms later; so does the first one after that.
    assert sorted({at_ns / MS for at_ns, _ in arrivals}) == [10, 21, 32]
    assert order(arrivals) == list(range(30))


def test_a_full_slot_leaves_the_rest_to_the_next() -> None:
    at_ms = [at_ns / MS for at_ns, _ in run(of("slot 10ms packets 2"), numbered(6), every_ns=0)]
    assert at_ms == [at_ms[0], at_ms[0], at_ms[0] + 10, at_ms[0] + 10, at_ms[0] + 20, at_ms[0] + 20]
    at_ms = [at_ns / MS for at_ns, _ in run(of("slot 10ms bytes 250"), numbered(6), every_ns=0)]
    assert at_ms == [at_ms[0]] * 3 + [at_ms[0] + 10] * 3


def test_slots_begin_within_their_bounds() -> None:
    found = [min(delays_ms(run(of(f"slot 10ms..20ms, seed {seed}"), numbered(1, 100)))) for seed in range(200)]
    assert min(found) >= 10
    assert max(found) <= 20
    assert fmean(found) == pytest.approx(15, abs=1)


def test_state_change_does_not_affect_packets_in_flight() -> None:
    fate = of("delay 50ms")
    fate.offer([b"early".ljust(60)], 0)
    fate.become(LinkState())
    fate.offer([b"late".ljust(60)], 10 * MS)
    assert fate.due(10 * MS) == [b"late".ljust(60)]
    assert fate.next_ns == 50 * MS
    assert fate.due(50 * MS) == [b"early".ljust(60)]
    assert fate.next_ns is None


def test_setting_a_state_restarts_its_seed() -> None:
    state = LinkState.from_text("loss 50%, seed 7")
    fate = Fate(state, flip)
    first = order(run(fate, numbered(50)))
    fate.become(state)
    assert order(run(fate, numbered(50))) == first
