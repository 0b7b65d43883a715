"""Counters of placement groups at the embedded monitor, and the scrubs that it requests from OSDs."""

import errno
from typing import Any

import pytest

from messenger.messages.message import Payload
from messenger.messages.osd_objects import ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_scrub import MOSDScrub2
from messenger.messages.pools import MGetPoolStats
from tests.toolkit.embedded.mon.conftest import FSID
from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.monitor import Monitor
from toolkit.embedded.mon.pools import pool_stats
from toolkit.embedded.usage import GroupState, Scrub, Usage

assert Monitor  # its module has all commands


def run(cluster: Cluster, prefix: str, **arguments: Any) -> Answer:
    return COMMANDS.run(cluster, {"prefix": prefix, **arguments})


def rows(text: str | None) -> list[dict[str, str]]:
    """Return the lines of the first table of a text by its headings."""
    lines = [line.split() for line in (text or "").partition("\n\n")[0].splitlines()]
    heading = next(number for number, line in enumerate(lines) if line[0].startswith("PG"))
    return [dict(zip(lines[heading], line, strict=False)) for line in lines[heading + 1 :]]


@pytest.fixture
def sent(cluster: Cluster) -> list[tuple[int, Payload]]:
    """The messages to OSDs, both of which have a session."""
    found: list[tuple[int, Payload]] = []

    def send(osd: int, payload: Payload) -> bool:
        found.append((osd, payload))
        return True

    cluster.send_to_osd = send
    return found


def primary(cluster: Cluster, pgid: PgId) -> int:
    return cluster.maps.placement.mapping(pgid).acting_primary


def test_groups_have_the_counters_of_their_primary(cluster: Cluster) -> None:
    pgid = PgId(1, 3)
    osd = primary(cluster, pgid)
    use = Usage(3, 4096, clones=1, omap_keys=2, omap_bytes=9, reads=5, read_kb=6, writes=7, write_kb=8)
    cluster.reported = {osd: {pgid: GroupState(use, version=12, epoch=4, scrub=Scrub(10, 3, 1e9), errors=1)}}
    cluster.reported[1 - osd] = {pgid: GroupState(Usage(99))}  # left behind: it is not the primary
    cluster.reports = {osd: (6, 2)}
    found = {each["pgid"]: each for each in run(cluster, "pg ls").value["pg_stats"]}
    sums = found["1.3"]["stat_sum"]
    counted = ("num_objects", "num_bytes", "num_object_clones", "num_omap_keys", "num_omap_bytes", "num_read")
    assert [sums[name] for name in counted] == [3, 4096, 1, 2, 9, 5]
    counted = ("num_read_kb", "num_write", "num_write_kb", "num_scrub_errors")
    assert [sums[name] for name in counted] == [6, 7, 8, 1]
    assert (found["1.3"]["version"], found["1.3"]["reported_epoch"], found["1.3"]["reported_seq"]) == (
        "4'12",
        6,
        2,
    )
    assert (found["1.3"]["last_scrub"], found["1.3"]["last_deep_scrub"]) == ("3'10", "0'0")
    assert found["1.3"]["last_scrub_stamp"] == "2001-09-09T01:46:40.000000+0000"
    assert found["1.2"]["stat_sum"]["num_objects"] == 0
    line = rows(run(cluster, "pg ls").text)[3]
    assert [line[name] for name in ("PG", "OBJECTS", "BYTES", "OMAP_KEYS*", "VERSION")] == [
        *("1.3", "3", "4096", "2", "4'12")
    ]
    assert rows(run(cluster, "pg dump").text)[3]["OBJECTS"] == "3"
    assert rows(run(cluster, "pg dump", dumpcontents=["sum"]).text)[0]["OBJECTS"] == "102"
    assert list(rows(run(cluster, "pg dump", dumpcontents=["pgs_brief"]).text)[3])[:3] == [
        "PG_STAT",
        "STATE",
        "UP",
    ]


def test_clients_get_the_counters_of_pools(cluster: Cluster) -> None:
    cluster.reported = {0: {PgId(1, 0): GroupState(Usage(reads=5, read_kb=6, writes=7, write_kb=8))}}
    sums = pool_stats(cluster, MGetPoolStats(FSID, ["objects"])).pool_stats["objects"].stats.sum
    assert (sums.num_rd, sums.num_rd_kb, sums.num_wr, sums.num_wr_kb) == (5, 6, 7, 8)
    stats = run(cluster, "df", detail="detail").value["pools"][0]["stats"]
    assert (stats["rd"], stats["rd_bytes"], stats["wr"], stats["wr_bytes"]) == (5, 6144, 7, 8192)


def test_a_group_is_in_its_state_since_its_primary_changed(cluster: Cluster) -> None:
    before = {each["pgid"]: each["last_change"] for each in run(cluster, "pg ls").value["pg_stats"]}
    cluster.maps.mark_down(1)
    for each in run(cluster, "pg ls").value["pg_stats"]:
        assert (each["last_change"] > before[each["pgid"]]) == (each["state"] == "unknown")


@pytest.mark.parametrize(("way", "deep", "repair"), [("scrub", 0, 0), ("deep-scrub", 1, 0), ("repair", 1, 1)])
def test_scrubs_are_requested_from_the_primary(
    cluster: Cluster, sent: list[tuple[int, Payload]], way: str, deep: int, repair: int
) -> None:
    def request(*groups: PgId) -> MOSDScrub2:
        epoch = cluster.maps.osdmap.epoch
        return MOSDScrub2(FSID, epoch, [ShardedPgId(pgid) for pgid in groups], bool(repair), bool(deep))

    osd = primary(cluster, PgId(1, 3))
    assert run(cluster, f"pg {way}", pgid="1.3").status == f"instructing pg 1.3 on osd.{osd} to {way}"
    assert sent == [(osd, request(PgId(1, 3)))]
    sent.clear()
    own = {osd: [pgid for pgid, primary in cluster.groups() if primary == osd] for osd in (0, 1)}
    assert run(cluster, f"osd {way}", who="all").status == f"instructed osd(s) 0,1 to {way}"
    assert sent == [(osd, request(*own[osd])) for osd in (0, 1)]
    sent.clear()
    run(cluster, f"osd {way}", who="osd.1")
    run(cluster, f"osd pool {way}", who=["objects"])
    assert [osd for osd, _ in sent] == [1, 0, 1]


@pytest.mark.parametrize(
    ("prefix", "arguments", "number"),
    [
        ("pg scrub", {"pgid": "1.8"}, errno.ENOENT),
        ("pg scrub", {"pgid": "x"}, errno.ENOENT),
        ("osd scrub", {"who": "7"}, errno.EAGAIN),
        ("osd scrub", {"who": "x"}, errno.EINVAL),
        ("osd pool scrub", {"who": ["none"]}, errno.ENOENT),
    ],
)
def test_scrubs_of_nothing_are_refused(
    cluster: Cluster, sent: list[tuple[int, Payload]], prefix: str, arguments: dict[str, Any], number: int
) -> None:
    with pytest.raises(CommandError) as refused:
        run(cluster, prefix, **arguments)
    assert (refused.value.errno, sent) == (number, [])


def test_a_scrub_needs_a_primary_with_a_session(cluster: Cluster) -> None:
    pgid = next(pgid for pgid, osd in cluster.groups() if osd == 1)
    for words in ("not currently connected", "has no primary osd"):
        with pytest.raises(CommandError, match=words) as refused:
            run(cluster, "pg scrub", pgid=str(pgid))
        assert refused.value.errno == errno.EAGAIN
        cluster.maps.mark_down(1)
