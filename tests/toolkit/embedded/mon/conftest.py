"""An embedded cluster without daemons, for tests of its monitor."""

import random
from uuid import UUID

import pytest

from messenger.cephx.key_server import KeyServer
from messenger.denc.address import AddrVec
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.maps import Maps

FSID = UUID("6f3f2a54-3c0c-4a9e-9f55-0d3ac0a9b001")


@pytest.fixture
def cluster() -> Cluster:
    """Two OSDs that are up, and a pool."""
    maps = Maps(FSID, {"a": AddrVec.parse("[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]")}, {0: "x", 1: "y"})
    for osd in range(2):
        maps.mark_up(osd, AddrVec.parse(f"v2:127.0.0.1:680{osd}/1001"))
    maps.create_pool("objects", 8)
    return Cluster("a", maps, KeyServer({}, random.Random(1)), "cephx")
