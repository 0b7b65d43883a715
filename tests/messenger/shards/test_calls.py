"""Calls between shards are applied in their order, whatever order they arrive in."""

from hypothesis import given
from hypothesis import strategies as st

from messenger.calls import KeepAliveIo
from messenger.shards.calls import InOrder


@given(st.permutations(range(1, 12)))
def test_the_order_is_restored(arrival: list[int]) -> None:
    order: InOrder[KeepAliveIo] = InOrder()
    applied = []
    for count, seq in enumerate(arrival, 1):
        applied += [call.seq for call in order.arrive(KeepAliveIo(1, seq))]
        assert applied == list(range(1, len(applied) + 1))
        assert len(applied) == count or set(arrival[:count]) != set(range(1, count + 1))
    assert applied == list(range(1, 12))
