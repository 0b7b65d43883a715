"""Commands for the embedded monitor: what is refused, and the forms of the answers."""

import errno
import json
import random
from typing import Any
from uuid import UUID

import pytest

from messenger.cephx.key_server import KeyServer
from messenger.denc.address import AddrVec
from messenger.messages.osd_info import OsdState
from messenger.messages.pools import MPoolOp, MPoolOpReply, MStatfs, PoolOpCode
from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError, size, table
from toolkit.embedded.mon.cluster import Cluster, Usage
from toolkit.embedded.mon.maps import Maps
from toolkit.embedded.mon.monitor import Monitor
from toolkit.embedded.mon.pools import pool_operation, statfs
from toolkit.embedded.release import CAPACITY_BYTES

assert Monitor  # its module has all commands

FSID = UUID("6f3f2a54-3c0c-4a9e-9f55-0d3ac0a9b001")


@pytest.fixture
def cluster() -> Cluster:
    """Two OSDs that are up, and a pool."""
    maps = Maps(FSID, {"a": AddrVec.parse("[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]")}, {0: "x", 1: "y"})
    for osd in range(2):
        maps.mark_up(osd, AddrVec.parse(f"v2:127.0.0.1:680{osd}/1001"))
    maps.create_pool("objects", 8)
    return Cluster("a", maps, KeyServer({}, random.Random(1)), "cephx")


def run(cluster: Cluster, prefix: str, **arguments: Any) -> Answer:
    return COMMANDS.run(cluster, {"prefix": prefix, **arguments})


@pytest.mark.parametrize(
    ("prefix", "arguments", "number", "words"),
    [
        ("no such", {}, errno.EINVAL, "command not known: 'no such'"),
        ("osd pool create", {}, errno.EINVAL, "missing pool"),
        ("osd pool create", {"pool": ""}, errno.EINVAL, "needs a name"),
        ("osd pool create", {"pool": "p", "pg_num": 257}, errno.ERANGE, "at most 256"),
        ("osd pool create", {"pool": "p", "size": 3}, errno.EINVAL, "one copy"),
        ("osd pool create", {"pool": "p", "pool_type": "erasure"}, errno.EOPNOTSUPP, "erasure"),
        ("osd pool delete", {"pool": "objects", "pool2": "objects"}, errno.EPERM, "PERMANENTLY"),
        ("osd pool get", {"pool": "none", "var": "size"}, errno.ENOENT, "unrecognized pool"),
        ("osd map", {"pool": "none", "object": "x"}, errno.ENOENT, "does not exist"),
        ("osd set", {"key": "bogus"}, errno.EINVAL, "unrecognized flag"),
        ("osd out", {"ids": ["7"]}, errno.ENOENT, "osd.7 does not exist"),
        ("auth get", {"entity": "client.none"}, errno.ENOENT, "failed to find client.none"),
        ("auth get", {"entity": "nothing"}, errno.EINVAL, "bad entity name"),
        ("auth add", {"entity": "client.x", "caps": ["osd"]}, errno.EINVAL, "SERVICE and CAPS"),
    ],
)
def test_refusals(cluster: Cluster, prefix: str, arguments: dict[str, Any], number: int, words: str) -> None:
    with pytest.raises(CommandError, match=words) as refused:
        run(cluster, prefix, **arguments)
    assert refused.value.errno == number


def test_every_command_is_described_as_the_command_line_reads_it() -> None:
    described = COMMANDS.descriptions()
    assert sorted(described) == [f"cmd{number:03}" for number in range(len(described))]
    create = next(each for each in described.values() if each["sig"][:3] == ["osd", "pool", "create"])
    assert create["sig"][3] == {"name": "pool", "type": "CephPoolname"}
    assert create["sig"][4] == {"name": "pg_num", "type": "CephInt", "range": "0", "req": False}
    assert {each["perm"] for each in described.values()} == {"r", "rw"}
    json.dumps(described)


def test_down_osd_is_a_health_warning(cluster: Cluster) -> None:
    assert run(cluster, "health").render("plain") == b"HEALTH_OK\n"
    cluster.maps.mark_down(1)
    assert b"1 osds down" in run(cluster, "health").render("plain")
    checks = json.loads(run(cluster, "status").render("json"))["health"]["checks"]
    assert set(checks) == {"OSD_DOWN", "PG_AVAILABILITY"}
    assert "osd.1 (root=default,host=y) is down" in run(cluster, "health", detail="detail").text
    cluster.maps.mark_in(1, inside=False)
    assert run(cluster, "health").render("plain") == b"HEALTH_OK\n"


def test_df_counts_the_osds_that_are_up(cluster: Cluster) -> None:
    cluster.use = {0: {1: Usage(2, 300)}, 1: {1: Usage(1, 50)}}
    stats = json.loads(run(cluster, "df").render("json"))
    assert stats["stats"]["total_bytes"] == 2 * CAPACITY_BYTES
    assert stats["pools"][0]["stats"]["objects"] == 3
    assert statfs(cluster, MStatfs(FSID)).num_objects == 3
    cluster.maps.mark_down(1)
    assert json.loads(run(cluster, "df").render("json"))["pools"][0]["stats"]["stored"] == 300


def test_flags_and_weights_change_the_map(cluster: Cluster) -> None:
    epoch = cluster.maps.osdmap.epoch
    assert run(cluster, "osd set", key="noout").status == "noout is set"
    assert "noout" in run(cluster, "osd dump").value["flags_set"]
    run(cluster, "osd out", ids=["osd.1"])
    assert cluster.in_osds() == [0]
    run(cluster, "osd in", ids=["all"])
    assert cluster.in_osds() == [0, 1]
    assert cluster.maps.osdmap.epoch == epoch + 3
    assert cluster.maps.osdmap.osds[1].state == OsdState.EXISTS | OsdState.UP


def test_entities_come_and_go(cluster: Cluster) -> None:
    caps = ["mon", "allow r", "osd", "allow rw"]
    made = run(cluster, "auth get-or-create", entity="client.x", caps=caps)
    again = run(cluster, "auth get-or-create", entity="client.x", caps=caps)
    assert made.render("plain") == again.render("plain")
    with pytest.raises(CommandError, match="do not match"):
        run(cluster, "auth get-or-create", entity="client.x", caps=["mon", "allow *"])
    key = run(cluster, "auth print-key", entity="client.x").render("plain").decode()
    assert key in made.render("plain").decode()
    run(cluster, "auth caps", entity="client.x", caps=["mon", "allow *"])
    assert 'caps mon = "allow *"' in run(cluster, "auth get", entity="client.x").text
    run(cluster, "auth rm", entity="client.x")
    with pytest.raises(CommandError, match="failed to find"):
        run(cluster, "auth get", entity="client.x")


def test_pool_operations_of_librados_create_and_delete_pools(cluster: Cluster) -> None:
    def ask(op: PoolOpCode, **fields: Any) -> MPoolOpReply:
        return pool_operation(cluster, MPoolOp(FSID, fields.pop("pool", 0), op, **fields))

    assert ask(PoolOpCode.CREATE, name="made").reply_code == 0
    assert ask(PoolOpCode.CREATE, name="made").reply_code == -errno.EEXIST & 0xFFFFFFFF
    number = cluster.maps.pool_id("made")
    assert ask(PoolOpCode.DELETE, pool=number).reply_code == 0
    assert cluster.maps.pool_id("made") is None
    assert [ask(PoolOpCode.CREATE_UNMANAGED_SNAP, pool=1).response_data[0] for _ in range(2)] == [1, 2]
    assert ask(PoolOpCode.DELETE_UNMANAGED_SNAP, pool=1, snapid=2).reply_code == 0
    assert ask(PoolOpCode.CREATE_SNAP, pool=1, name="s").reply_code == -errno.EOPNOTSUPP & 0xFFFFFFFF


def test_forms_of_numbers_and_tables() -> None:
    assert [size(n) for n in (0, 1023, 1536, 200 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "200 MiB",
        "3.0 TiB",
    ]
    assert table([["A", "B"], ["x", "10"]]) == "A   B\nx  10\n"
