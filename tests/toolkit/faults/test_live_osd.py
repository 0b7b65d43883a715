"""A real OSD behind the proxy: whatever happens at a frame, what was written is there."""

from contextlib import ExitStack

import pytest

from messenger.denc.address import EntityAddr
from tests.support.aio import on_loop
from tests.support.rados import Clusters, client, pool_of
from toolkit.faults.live import Proxy
from toolkit.faults.script import Rules

pytestmark = [pytest.mark.needs("ceph-osd"), pytest.mark.xdist_group("real_cluster")]

RULES = [
    "dial #1: refuse",
    "-> BANNER #1: cut at 5",
    "<- HELLO #1: close after",
    "-> AUTH_REQUEST #1: hold it for 100ms",
    "<- AUTH_DONE #1: cut after",
    "-> AUTH_SIGNATURE #1: corrupt byte 0 of segment 0 fixed",
    "<- SERVER_IDENT #1: corrupt byte -1",
    "<- SERVER_IDENT #1: cut before",
    "-> MESSAGE osd_op #2: cut before",
    "-> MESSAGE osd_op #2: cut at 60",
    "<- MESSAGE osd_op_reply #2: cut before",
    "<- MESSAGE osd_op_reply #1: cut after",
    "<- MESSAGE osd_op_reply #2: delay 100ms",
    "-> MESSAGE osd_op if message.data > 5: trickle 9",
]


class Proxies:
    """One before each address that is dialled; what one sees of keys opens the links of the others."""

    def __init__(self, undo: ExitStack, monitor: str, keyring: str, rules: Rules) -> None:
        self._undo = undo
        self._rules = rules
        self._monitor = undo.enter_context(Proxy(monitor, keyring=keyring))
        self.to: dict[tuple[str, int], Proxy] = {host_and_port(monitor): self._monitor}

    def route(self, addr: EntityAddr) -> tuple[str, int]:
        place = addr.host, addr.port
        if place not in self.to:
            there = Proxy(f"{addr.host}:{addr.port}", self._rules, keys=self._monitor.keys)
            self.to[place] = self._undo.enter_context(there)
        return "127.0.0.1", self.to[place].port

    @property
    def osd(self) -> Proxy:
        return next(proxy for proxy in self.to.values() if proxy is not self._monitor)


def host_and_port(place: str) -> tuple[str, int]:
    host, port = place.split(":")
    return host, int(port)


TWICE = "-> MESSAGE osd_op #2: duplicate"
"""Not in crc mode: of an OSD that got a seq for the second time our client got no answer any more."""


@pytest.mark.parametrize(
    ("mode", "rule"), [*((mode, rule) for mode in ("crc", "secure") for rule in RULES), ("secure", TWICE)]
)
def test_objects_survive_each_rule_once(real_cluster: Clusters, mode: str, rule: str) -> None:
    cluster = real_cluster(1, mode)

    @on_loop
    async def write_and_read() -> None:
        with ExitStack() as undo:
            monitor = f"127.0.0.1:{cluster.monitor.port_v2}"
            proxies = Proxies(undo, monitor, str(cluster.keyring), rule)
            async with client(cluster, route=proxies.route) as rados:
                pool = await pool_of(rados)
                for number in range(3):
                    await pool.write_full(f"object {rule} {number}", b"content %d" % number)
                for number in range(3):
                    assert await pool.read(f"object {rule} {number}") == b"content %d" % number
            assert proxies.osd.hits
            assert not [hit.problem for hit in proxies.osd.hits if hit.problem]
            assert not [link.blind for link in proxies.osd.links if link.blind and "seal" not in link.blind]

    write_and_read()
