"""The states that are measured: each key of a link at least once, with what is looked at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from toolkit.bench.links.expected import Expected, losses, quantile_ms, share
from toolkit.bench.links.hosts import PACKET_BYTES, Arrival
from toolkit.network.state import LinkState

Measure = Callable[[Sequence[Arrival], int], float]
"""Returns a value, from what arrived and the number of packets sent."""
_SLACK_MS = 2.0
"""By how much a timer may be late."""
_RATE_PART = 0.03
_BURST_PACKETS = 100
_DAMAGED_UNSEEN = 0.07
"""Part of the flipped bits that no checksum covers, such as those of Ethernet addresses."""


@dataclass(frozen=True, slots=True)
class Case:
    """One value of one state."""

    asked: str
    """Text of the state."""
    what: str
    """The value, with its unit."""
    measure: Measure
    expect: Callable[[LinkState, int], Expected | None]
    """Returns the range of the value for a number of packets; None if only netem and the wire are compared."""
    packets: int = 0
    """Number of packets; 0 for the number that the user chooses."""
    every_s: float = 0.0005
    """Time between two packets."""

    @property
    def state(self) -> LinkState:
        """The state."""
        return LinkState.from_text(self.asked)


def _numbers(arrived: Sequence[Arrival]) -> set[int]:
    return {each.number for each in arrived}


def lost_percent(arrived: Sequence[Arrival], sent: int) -> float:
    """Return the percentage of packets that did not arrive, or did so damaged."""
    return 100 * (sent - len(_numbers(arrived))) / sent


def doubled_percent(arrived: Sequence[Arrival], sent: int) -> float:
    """Return the percentage of packets that arrived twice."""
    return 100 * (len(arrived) - len(_numbers(arrived))) / sent


def burst_packets(arrived: Sequence[Arrival], sent: int) -> float:
    """Return the mean number of packets that are lost one after the other."""
    lost = sorted(set(range(sent)) - _numbers(arrived))
    bursts = 1 + sum(after - before > 1 for before, after in pairwise(lost))
    return len(lost) / bursts if lost else 0.0


def undelayed_percent(arrived: Sequence[Arrival], sent: int) -> float:
    """Return the percentage of packets that arrived in less than half of the median delay."""
    half_ms = median(each.delay_ms for each in arrived) / 2 if arrived else 0.0
    return 100 * sum(each.delay_ms < half_ms for each in arrived) / sent


def rate_mbit(arrived: Sequence[Arrival], _sent: int) -> float:
    """Return the megabits per second at which packets arrived."""
    took_s = arrived[-1].at_s - arrived[0].at_s
    return (len(arrived) - 1) * PACKET_BYTES * 8 / took_s / 1e6


def slot_packets(arrived: Sequence[Arrival], _sent: int) -> float:
    """Return the median number of packets that arrive together, with less than 4 ms between them."""
    sizes = [1]
    for before, after in pairwise(arrived):
        if after.at_s - before.at_s < 0.004:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return median(sizes)


def arrived_packets(arrived: Sequence[Arrival], _sent: int) -> float:
    """Return the number of packets that arrived."""
    return float(len(arrived))


def delay_quantile(part: float) -> Measure:
    """Return the measure of a quantile of the delay in milliseconds."""

    def measure(arrived: Sequence[Arrival], _sent: int) -> float:
        delays = sorted(each.delay_ms for each in arrived)
        return delays[min(len(delays) - 1, int(part * len(delays)))] if delays else 0.0

    return measure


# ---- what is expected


def _percent(of: Callable[[LinkState], float], less: float = 0.0) -> Callable[[LinkState, int], Expected]:
    return lambda state, packets: share(of(state), packets, less=less)


def _exactly(value: float, part: float = 0.0) -> Callable[[LinkState, int], Expected]:
    return lambda _state, _packets: Expected(value, value * (1 - part), value * (1 + part))


def _compared(_state: LinkState, _packets: int) -> None:
    return None


def _delay(part: float) -> Callable[[LinkState, int], Expected]:
    """Return the range of a quantile: that of parts near it, and the lateness of timers."""

    def expect(state: LinkState, packets: int) -> Expected:
        near = 3 * (part * (1 - part) / packets) ** 0.5
        low, high = (quantile_ms(state, min(0.999, max(0.0, part + by))) for by in (-near, near))
        return Expected(quantile_ms(state, part), low - 0.1, high + _SLACK_MS)

    return expect


def _delays(asked: str, *parts: float) -> list[Case]:
    return [Case(asked, f"delay p{part * 100:.0f} ms", delay_quantile(part), _delay(part)) for part in parts]


def _loss(state: LinkState) -> float:
    return getattr(state.loss, "percent", 0.0)


CASES = (
    *_delays("delay 20ms", 0.5),
    *_delays("delay 40ms ± 10ms", 0.1, 0.9),
    *_delays("delay 40ms ± 5ms normal", 0.1, 0.9),
    *_delays("delay 40ms ± 5ms pareto", 0.1, 0.9),
    *_delays("delay 40ms ± 5ms paretonormal", 0.1, 0.9),
    Case("delay 40ms ± 10ms correlation 50%", "delay p90 ms", delay_quantile(0.9), _compared),
    Case("loss 5%", "lost %", lost_percent, _percent(_loss)),
    Case("loss 20% correlation 25%", "lost %", lost_percent, _compared),
    Case("loss to-bad 5% to-good 30% in-bad 90% in-good 1%", "lost %", lost_percent, losses),
    Case("loss to-bad 5% to-good 30%", "lost in a row", burst_packets, _exactly(100 / 30, 0.1)),
    Case("loss p13 5% p31 60% p32 20% p23 30% p14 1%", "lost %", lost_percent, losses),
    Case("duplicate 10%", "doubled %", doubled_percent, _percent(lambda state: state.duplicate_percent)),
    Case("duplicate 20% correlation 25%", "doubled %", doubled_percent, _compared),
    Case("delay 20ms, reorder 25%", "undelayed %", undelayed_percent, _percent(lambda _: 25.0)),
    Case("delay 20ms, reorder 25% correlation 25%", "undelayed %", undelayed_percent, _compared),
    Case("delay 20ms, reorder 100% gap 5", "undelayed %", undelayed_percent, _exactly(20.0, 0.01)),
    Case("corrupt 10%", "damaged %", lost_percent, _percent(lambda _: 10.0, _DAMAGED_UNSEEN)),
    Case("corrupt 20% correlation 25%", "damaged %", lost_percent, _compared),
    Case("rate 2mbit", "Mbit/s", rate_mbit, _exactly(2.0, _RATE_PART), packets=800, every_s=0.0001),
    Case("delay 300ms, limit 50", "arrived", arrived_packets, _exactly(50.0), packets=_BURST_PACKETS, every_s=0),
    Case("slot 20ms..30ms packets 10", "in a slot", slot_packets, _exactly(10.0, 0.1), packets=1000, every_s=0),
    Case("slot 20ms bytes 2420", "in a slot", slot_packets, _exactly(10.0, 0.1), packets=1000, every_s=0),
    Case("loss 30%, seed 7", "lost %", lost_percent, _percent(_loss)),
)
"""Each key of a link at least once."""
