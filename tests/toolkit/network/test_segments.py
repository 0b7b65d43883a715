"""Segments of TCP that are forged: as packets, and read back."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.network.segments import ACK, FIN, RST, SYN, Flow, Segment

_PORTS = st.integers(0, 65_535)
_NUMBERS = st.integers(0, 2**32 - 1)
_FLOWS = st.one_of(
    st.builds(Flow, kind, _PORTS, kind, _PORTS)
    for kind in (
        st.builds(IPv4Address, st.integers(0, 2**32 - 1)),
        st.builds(IPv6Address, st.integers(0, 2**128 - 1)),
    )
)


@given(_FLOWS, st.sampled_from([RST, FIN | ACK, SYN]), _NUMBERS, _NUMBERS, _PORTS)
def test_a_segment_is_read_as_it_was_made(flow: Flow, flags: int, seq: int, ack: int, window: int) -> None:
    segment = Segment(flow, flags, seq, ack, window)
    assert Segment.read(segment.packet()) == segment
    assert flow.other_end.other_end == flow


@given(st.binary(max_size=120))
def test_read_returns_none_for_other_packets(raw: bytes) -> None:
    found = Segment.read(raw)
    assert found is None or found.size_bytes >= 0


@pytest.mark.parametrize(
    ("offset", "value"), [(9, 17), (6, 0x20), (7, 1)], ids=["UDP", "first fragment", "second"]
)
def test_read_returns_none_for_other_ipv4_packets(offset: int, value: int) -> None:
    flow = Flow(IPv4Address("10.0.0.1"), 1, IPv4Address("10.0.0.2"), 2)
    packet = bytearray(Segment(flow, RST, 7).packet())
    packet[offset] = value
    assert Segment.read(bytes(packet)) is None
