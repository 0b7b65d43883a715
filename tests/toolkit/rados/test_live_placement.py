"""Objects are on the OSDs that the cluster names, after every change of placement."""

import asyncio
import errno
import json
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from messenger.messages.osd_objects import PgId
from messenger.messages.osdmap import OSDMap, OsdState
from tests.support.aio import on_loop
from tests.support.rados import Clusters, client, refusal
from toolkit.rados.client import Rados
from toolkit.rados.placement import NO_OSD, Placement, object_hash

pytestmark = [pytest.mark.needs("ceph-osd"), pytest.mark.xdist_group("real_cluster")]

UP = OsdState.EXISTS | OsdState.UP
THREE = (3, "crc", "cephx")
POOLS = {"placed-a": 5, "placed-b": 32, "placed-ec": 12}
NAMES = [f"{word}{number}" for word in ("rbd_data.10e16b8b4567.", "größe ", "x") for number in range(50)]


async def check(rados: Rados, names: Iterable[str], nspace: str = "") -> None:
    """Ask the monitors about every name in every pool, many questions at a time."""
    await rados.wait_for_newest_map()
    numbers = {name: number for number, name in rados.osdmap.pool_names.items()}

    async def compare(pool: str, name: str) -> None:
        question = {"prefix": "osd map", "pool": pool, "object": name, "nspace": nspace, "format": "json"}
        while True:
            theirs = json.loads((await rados.command(question)).output)
            await rados.wait_for_epoch(theirs["epoch"])
            if rados.osdmap.epoch == theirs["epoch"]:
                break  # OSDs change the map by themselves, so ask again until both speak of the same
        pgid = rados.placement.pg_of(numbers[pool], object_hash(name, nspace=nspace))
        ours = rados.placement.mapping(pgid)
        assert (str(pgid), list(ours.up), ours.up_primary, list(ours.acting), ours.acting_primary) == (
            theirs["pgid"],
            theirs["up"],
            theirs["up_primary"],
            theirs["acting"],
            theirs["acting_primary"],
        ), (pool, name)

    await asyncio.gather(*(compare(pool, name) for pool in POOLS for name in names))


@on_loop
async def test_hundreds_of_names_in_several_pools(real_cluster: Clusters) -> None:
    async with client(real_cluster(*THREE)) as rados:
        profile = ["k=2", "m=1", "crush-failure-domain=osd"]
        await rados.command({"prefix": "osd erasure-code-profile set", "name": "placed", "profile": profile})
        for name, pg_num in POOLS.items():
            coded = {"pool_type": "erasure", "erasure_code_profile": "placed"} if name == "placed-ec" else {}
            await rados.create_pool(name, pg_num, pgp_num=pg_num, **coded)
        await check(rados, NAMES)
        await check(rados, NAMES[:50], nspace="space")
        coded_pool = rados.pool("placed-ec")
        await coded_pool.write_full("coded", b"in shards")
        assert await coded_pool.read("coded") == b"in shards"
        with refusal(errno.EOPNOTSUPP):
            await coded_pool.omap_set("coded", {"k": b"v"})
        # now what moves them: weights, affinity, upmaps, temporary mappings
        numbers = {name: number for number, name in rados.osdmap.pool_names.items()}
        pg = f"{numbers['placed-b']}.3"
        await rados.command({"prefix": "osd set-require-min-compat-client", "version": "luminous"})
        await rados.command({"prefix": "osd reweight", "id": 1, "weight": 0.4})
        await rados.command({"prefix": "osd primary-affinity", "id": 0, "weight": 0.3})
        await rados.command({"prefix": "osd pg-temp", "pgid": pg, "id": [2, 0]})
        await check(rados, NAMES[:60])
        await rados.command({"prefix": "osd reweight", "id": 1, "weight": 1.0})
        first, *_ = rados.placement.mapping(PgId(numbers["placed-a"], 1)).up
        moved = {"prefix": "osd pg-upmap", "pgid": f"{numbers['placed-a']}.1", "id": [(first + 1) % 3, first]}
        await rados.command(moved)
        await rados.command({"prefix": "osd primary-affinity", "id": 0, "weight": 1.0})
        await check(rados, NAMES[:60])


@on_loop
async def test_write_without_an_osd_waits(real_cluster: Clusters) -> None:
    cluster = real_cluster(1, "crc", "none")
    async with client(cluster) as rados:
        pool = await rados.create_pool("waiting", 4)
        await pool.write_full("x", b"1")
        await asyncio.to_thread(cluster.osds[0].stop)
        await rados.command({"prefix": "osd down", "ids": ["0"]})
        await rados.wait_for_newest_map()
        pgid = rados.placement.pg_of(await pool._resolve(), object_hash("x"))
        assert rados.placement.mapping(pgid).acting_primary == NO_OSD
        writing = asyncio.create_task(pool.append("x", b"2"))
        done, _ = await asyncio.wait([writing], timeout=0.2)
        assert not done
        cluster.osds[0].start()
        await asyncio.to_thread(cluster.osds[0].wait_until_up)
        await writing
        assert await pool.read("x") == b"12"


def test_every_group_of_a_large_made_up_map(tmp_path: Path) -> None:
    path = tmp_path / "osdmap"

    def osdmaptool(*arguments: str) -> str:
        return subprocess.run(
            ["osdmaptool", *arguments, str(path)], check=True, capture_output=True, text=True
        ).stdout

    # replicas on different OSDs rather than hosts, of which such a map has only one
    osdmaptool("--osd_crush_chooseleaf_type=0", "--createsimple", "70", "--pg-bits", "3", "--with-default-pool")
    shown = osdmaptool("--mark-up-in", "--mark-out", "7", "--test-map-pgs-dump")  # marks are not kept in the file
    osdmap = OSDMap.decode(path.read_bytes())
    osdmap.osds = [replace(osd, state=UP, weight=0 if n == 7 else 0x10000) for n, osd in enumerate(osdmap.osds)]
    placement = Placement(osdmap)
    groups = [line.split("\t") for line in shown.splitlines() if line.startswith("1.")]
    assert len(groups) == 70 * 8
    for pgid, osds, *_ in groups:
        mapping = placement.mapping(PgId(1, int(pgid.partition(".")[2], 16)))
        assert len(mapping.up) == 3
        assert str(list(mapping.up)).replace(" ", "") == osds, pgid
