"""Bytes against linux/pkt_sched.h, packed here a second time from its structs."""

import struct

from hypothesis import given

from tests.support.link_states import link_states
from toolkit.network.distributions import table
from toolkit.network.netem.attributes import NetemMessage
from toolkit.network.netem.codec import decode, encode
from toolkit.network.state import FourStates, GilbertElliott, LinkState, RandomLoss

ROOT = 0xFFFFFFFF
ALL = 0xFFFFFFFF


def message_of(state: LinkState) -> bytes:
    message = NetemMessage.about(3, ROOT, 0x10000, encode(state))
    message.encode()
    return bytes(message.data)


def options_of(state: LinkState) -> tuple[tuple[int, ...], dict[int, bytes]]:
    """struct tc_netem_qopt, and the attributes behind it by number."""
    data = message_of(state)
    tcmsg_at, attributes_at = 16, 16 + 20
    family, index, handle, parent, _ = struct.unpack_from("=B3xiIII", data, tcmsg_at)
    assert (family, index, handle, parent) == (0, 3, 0x10000, ROOT)
    top = attributes(data[attributes_at:])
    assert top[1] == b"netem\0"
    return struct.unpack_from("=6I", top[2]), attributes(top[2][24:])


def attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        assert kind not in found
        found[kind] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


@given(link_states())
def test_netem_message_encodes_and_decodes_link_states(state: LinkState) -> None:
    message = NetemMessage(message_of(state))
    message.decode()
    found = decode(message.get_attr("TCA_OPTIONS"))
    # The kernel does not report the distribution, so that it is not decoded.
    assert found.model_copy(update={"distribution": state.distribution}) == state


def test_a_clear_state_resets_all_that_netem_would_keep() -> None:
    basics, rest = options_of(LinkState())
    assert basics == (0, 1000, 0, 0, 0, 0)
    assert rest == {
        1: bytes(12),  # correlations
        3: bytes(8),  # reorder
        4: bytes(8),  # corrupt
        6: bytes(16),  # rate
        10: bytes(8),  # latency
        11: bytes(8),  # jitter
        12: bytes(40),  # slot
    }


def test_delays() -> None:
    state = LinkState(delay_ms=50, jitter_ms=5, delay_correlation_percent=25, distribution="pareto")
    basics, rest = options_of(state)
    assert (basics[0], basics[5]) == (50_000_000 // 64, 5_000_000 // 64)
    assert struct.unpack("=q", rest[10]) == (50_000_000,)
    assert struct.unpack("=q", rest[11]) == (5_000_000,)
    assert struct.unpack("=3I", rest[1]) == (round(ALL / 4), 0, 0)
    assert struct.unpack(f"={len(rest[2]) // 2}h", rest[2]) == table("pareto")


def test_uniform_jitter_has_a_table_too() -> None:
    _, rest = options_of(LinkState(delay_ms=50, jitter_ms=5))
    assert struct.unpack(f"={len(rest[2]) // 2}h", rest[2]) == table("uniform")


def test_random_losses_duplicates_corruption_and_reordering() -> None:
    state = LinkState(
        delay_ms=1,
        loss=RandomLoss(percent=100, correlation_percent=50),
        duplicate_percent=50,
        duplicate_correlation_percent=100,
        corrupt_percent=25,
        corrupt_correlation_percent=50,
        reorder_percent=100,
        reorder_correlation_percent=25,
        reorder_gap=7,
        limit_packets=9,
    )
    basics, rest = options_of(state)
    assert basics[1:5] == (9, ALL, 7, round(ALL / 2))
    assert struct.unpack("=3I", rest[1]) == (0, round(ALL / 2), ALL)
    assert struct.unpack("=2I", rest[3]) == (ALL, round(ALL / 4))
    assert struct.unpack("=2I", rest[4]) == (round(ALL / 4), round(ALL / 2))


def test_reordering_of_any_packet_is_a_gap_of_one() -> None:
    basics, _ = options_of(LinkState(delay_ms=1, reorder_percent=5))
    assert basics[3] == 1


def test_gilbert_elliott() -> None:
    loss = GilbertElliott(to_bad_percent=10, to_good_percent=50, bad_loss_percent=75, good_loss_percent=1)
    basics, rest = options_of(LinkState(loss=loss))
    assert basics[2] == 0
    # h is what survives the bad state.
    assert struct.unpack("=4I", attributes(rest[5])[2]) == (
        round(ALL * 0.1),
        round(ALL / 2),
        ALL - round(ALL * 0.75),
        round(ALL / 100),
    )


def test_four_states() -> None:
    _, rest = options_of(LinkState(loss=FourStates(p13=10, p31=20, p32=30, p23=40, p14=50)))
    # struct tc_netem_gimodel: p13, p31, p32, p14, p23
    shares = (10, 20, 30, 50, 40)
    assert struct.unpack("=5I", attributes(rest[5])[1]) == tuple(round(ALL * share / 100) for share in shares)


def test_rates() -> None:
    _, rest = options_of(LinkState(rate_bits_per_s=8_000_000))
    assert struct.unpack("=IiIi", rest[6]) == (1_000_000, 0, 0, 0)
    assert 8 not in rest
    _, rest = options_of(LinkState(rate_bits_per_s=80_000_000_000))
    assert struct.unpack("=IiIi", rest[6]) == (ALL, 0, 0, 0)
    assert struct.unpack("=Q", rest[8]) == (10_000_000_000,)


def test_slots_and_seeds() -> None:
    _, rest = options_of(LinkState.from_text("slot 10ms..20ms packets 5 bytes 3000, seed 18446744073709551615"))
    assert struct.unpack("=qqiiqq", rest[12]) == (10_000_000, 20_000_000, 5, 3000, 0, 0)
    assert struct.unpack("=Q", rest[14]) == (18446744073709551615,)


def test_tiny_probability_is_not_rounded_to_zero() -> None:
    tiny = LinkState(duplicate_percent=1e-12, duplicate_correlation_percent=50)
    message = NetemMessage(message_of(tiny))
    message.decode()
    assert 0 < decode(message.get_attr("TCA_OPTIONS")).duplicate_percent < 1e-7
