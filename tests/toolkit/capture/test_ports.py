"""The selection of ports. Its effect in the kernel is in ``test_packet_socket.py``."""

import pytest

from messenger.errors import LocalError
from toolkit.capture.ports import CEPH_PORTS, parse_ports, tcp_filter

KERNEL_LIMIT = 4096
INSTRUCTION_BYTES = 8


def test_ports_are_numbers_and_ranges() -> None:
    assert parse_ports("3300, 6789,6800-7568") == (range(3300, 3301), range(6789, 6790), range(6800, 7569))
    assert parse_ports(CEPH_PORTS)[-1].stop == 7569
    assert parse_ports("1-65535") == (range(1, 65536),)
    assert parse_ports("all") == ()


def test_number_that_is_no_text_is_an_error_with_an_example() -> None:
    with pytest.raises(LocalError, match="ports is of type int: give text such as '3300' or"):
        parse_ports(3300)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "x", "3300,", "0", "65536", "7000-6000", "1-", "-1", "3300;6789", "1-2-3", "ALL"]
)
def test_other_input_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(LocalError, match=r"no port or range; like 3300,6789,6800-7568, or all"):
        parse_ports(text)


def test_no_list_is_too_long_for_the_kernel() -> None:
    longest = ",".join(map(str, range(1, 401, 2)))
    assert len(tcp_filter(parse_ports(longest))) < KERNEL_LIMIT * INSTRUCTION_BYTES
    with pytest.raises(LocalError, match="201 ranges are more than 200"):
        parse_ports(f"{longest},500")
