"""Subnets that Docker's networks can have."""

from ipaddress import ip_network
from itertools import islice

import pytest

from messenger.errors import LocalError
from toolkit.cluster.backends.docker.subnets import free, require_free

LAN = {ip_network("10.80.0.0/16"): "the route through eth0", ip_network("fd00::/64"): "Docker network 'x'"}


def test_owner_of_a_subnet_is_reported():
    with pytest.raises(
        LocalError, match=r"public: subnet 10.80.7.0/24 is in use: 10.80.0.0/16 by the route through"
    ):
        require_free("public", ip_network("10.80.7.0/24"), LAN)
    with pytest.raises(LocalError, match=r"subnet fd00::/48 is in use: fd00::/64 by Docker network 'x'"):
        require_free("public", ip_network("fd00::/48"), LAN)
    require_free("public", ip_network("10.77.0.0/24"), LAN)


def test_free_yields_subnets_that_overlap_no_other():
    assert str(next(free(0, {}))) == "10.80.0.0/24"
    assert str(next(free(0, LAN))) == "10.81.0.0/24"
    assert [*free(0, {ip_network("10.0.0.0/8"): "a neighbour"})] == []


def test_clusters_search_from_different_subnets():
    first, second = (set(islice(free(number, {}), 8)) for number in (3, 4))
    assert not first & second
    assert str(next(free(511, {}))) == "10.95.248.0/24"
    assert next(free(512, {})) == next(free(0, {}))
