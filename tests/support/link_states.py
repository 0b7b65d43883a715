"""Link states for property tests, no finer than netem's own resolution."""

from hypothesis import strategies as st

from toolkit.network.state import FourStates, GilbertElliott, LinkState, RandomLoss, Slot

percents = st.integers(0, 100_000_000).map(lambda millionths: millionths / 1_000_000)
some_percents = st.integers(1, 100_000_000).map(lambda millionths: millionths / 1_000_000)
halves = st.integers(0, 50_000_000).map(lambda millionths: millionths / 1_000_000)


def times_ms(most_ms: int, least_us: int = 0) -> st.SearchStrategy[float]:
    return st.integers(least_us, most_ms * 1000).map(lambda microseconds: microseconds / 1000)


losses = st.one_of(
    st.none(),
    st.builds(RandomLoss, percent=some_percents, correlation_percent=percents),
    st.builds(
        GilbertElliott,
        to_bad_percent=percents,
        to_good_percent=percents,
        bad_loss_percent=percents,
        good_loss_percent=percents,
    ),
    st.builds(FourStates, p13=halves, p31=halves, p32=halves, p23=percents, p14=halves),
)


@st.composite
def slots(draw: st.DrawFn) -> Slot | None:
    if draw(st.booleans()):
        return None
    least, more = draw(times_ms(1000)), draw(times_ms(1000, 1))
    count = st.integers(0, (1 << 31) - 1)
    return Slot(min_delay_ms=least, max_delay_ms=round(least + more, 3), packets=draw(count), bytes=draw(count))


@st.composite
def link_states(draw: st.DrawFn) -> LinkState:
    """Anything that goes together."""
    fields: dict[str, object] = {
        "loss": draw(losses),
        "slot": draw(slots()),
        "rate_bits_per_s": draw(st.integers(0, 10**12)) * 8,
        "limit_packets": draw(st.integers(1, (1 << 32) - 1)),
        "seed": draw(st.none() | st.integers(0, (1 << 64) - 1)),
    }
    if draw(st.booleans()):
        fields |= {"delay_ms": draw(times_ms(60_000, 1))}
        if draw(st.booleans()):
            fields |= {
                "jitter_ms": draw(times_ms(2000, 1)),
                "delay_correlation_percent": draw(percents),
                "distribution": draw(st.sampled_from(["uniform", "normal", "pareto", "paretonormal"])),
            }
        if draw(st.booleans()):
            fields |= {
                "reorder_percent": draw(some_percents),
                "reorder_correlation_percent": draw(percents),
                "reorder_gap": draw(st.integers(0, (1 << 32) - 1)),
            }
    for name in ("duplicate", "corrupt"):
        if draw(st.booleans()):
            fields |= {f"{name}_percent": draw(some_percents), f"{name}_correlation_percent": draw(percents)}
    return LinkState.model_validate(fields)
