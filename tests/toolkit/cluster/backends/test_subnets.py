"""Addresses of hosts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from toolkit.cluster.backends.base import HostWish, NetworkWish
from toolkit.cluster.backends.subnets import assign


def test_networks_and_hosts_are_numbered_in_order() -> None:
    found = assign(
        [NetworkWish("public"), NetworkWish("cluster")],
        [HostWish("a", ("public",)), HostWish("b", ("cluster", "public")), HostWish("c", ("cluster",))],
    )
    assert found.of("a") == {"public": "10.77.0.1"}
    assert list(found.of("b").items()) == [("cluster", "10.77.1.1"), ("public", "10.77.0.2")]
    assert found.of("c") == {"cluster": "10.77.1.2"}


def test_assign_respects_requested_subnets_and_addresses() -> None:
    found = assign(
        [NetworkWish("n", "192.168.7.0/29"), NetworkWish("six", "fd00::/64")],
        [HostWish("a", ("n", "six")), HostWish("b", ("n",), addresses={"n": "192.168.7.1"})],
    )
    assert found.of("a") == {"n": "192.168.7.2", "six": "fd00::1"}
    assert found.of("b") == {"n": "192.168.7.1"}


@given(st.integers(1, 254))
def test_no_two_hosts_share_an_address(count: int) -> None:
    found = assign([NetworkWish("n")], [HostWish(f"h{n}", ("n",)) for n in range(count)])
    assert len({found.of(f"h{n}")["n"] for n in range(count)}) == count


@pytest.mark.parametrize(
    ("networks", "hosts", "words"),
    [
        ([NetworkWish("n", "10.1")], [], "network n: '10.1' is no subnet such as 10.77.0.0/24"),
        ([NetworkWish("n", "10.1.0.1/24")], [], "'10.1.0.1/24' is an address in a subnet; that is 10.1.0.0/24"),
        ([NetworkWish("n", "127.0.0.0/8")], [], "hosts cannot have addresses in 127.0.0.0/8"),
        ([NetworkWish("n", "fd00::/64", mtu=1000)], [], "IPv6 takes an MTU of 1280 bytes, not 1000"),
        (
            [NetworkWish("n", "10.1.0.0/16"), NetworkWish("m", "10.1.2.0/24")],
            [],
            "networks n and m: 10.1.0.0/16 and 10.1.2.0/24 overlap",
        ),
        (
            [NetworkWish("n", "10.1.0.0/30")],
            [HostWish(name, ("n",)) for name in "abc"],
            "10.1.0.0/30 has room for 2 hosts, not for 3",
        ),
        ([NetworkWish("n")], [HostWish("a", ("m",))], "host a: no network 'm'; there is n"),
        ([NetworkWish("n")], [HostWish("a", ("n",), addresses={"n": "ten"})], "host a: 'ten' is no address"),
        (
            [NetworkWish("n")],
            [HostWish("a", ("n",), addresses={"n": "10.77.0.255"})],
            "10.77.0.255 is not for a host of network n",
        ),
        (
            [NetworkWish("n"), NetworkWish("m")],
            [HostWish("a", ("n",), addresses={"m": "10.77.1.1"})],
            "host a: address 10.77.1.1 on m, which it is not on",
        ),
        (
            [NetworkWish("n")],
            [HostWish(name, ("n",), addresses={"n": "10.77.0.7"}) for name in "ab"],
            "two hosts request the same address",
        ),
    ],
)
def test_impossible_subnet_is_an_error(networks: list[NetworkWish], hosts: list[HostWish], words: str) -> None:
    with pytest.raises(LocalError) as error:
        assign(networks, hosts)
    assert words in str(error.value)
