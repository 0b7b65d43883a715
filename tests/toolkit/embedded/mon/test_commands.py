"""Commands for the embedded monitor: what is refused, and the forms of the answers."""

import errno
import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messenger.denc.features import ALL_FEATURES
from messenger.messages.osd_info import OsdState
from messenger.messages.pg import PgId
from messenger.messages.pool import PoolFlag
from messenger.messages.pools import MPoolOp, MPoolOpReply, MStatfs, PoolOpCode
from tests.toolkit.embedded.mon.conftest import FSID
from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError, size, table
from toolkit.embedded.mon.blocklist import expire
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.monitor import Monitor
from toolkit.embedded.mon.pools import pool_operation, statfs
from toolkit.embedded.release import CAPACITY_BYTES
from toolkit.embedded.usage import GroupState, Usage

assert Monitor  # its module has all commands


def run(cluster: Cluster, prefix: str, **arguments: Any) -> Answer:
    return COMMANDS.run(cluster, {"prefix": prefix, **arguments})


@pytest.mark.parametrize(
    ("prefix", "arguments", "number", "words"),
    [
        ("no such", {}, errno.EINVAL, "command not known: 'no such'"),
        ("osd pool create", {}, errno.EINVAL, "missing pool"),
        ("osd pool create", {"pool": ""}, errno.EINVAL, "needs a name"),
        ("osd pool create", {"pool": "p", "pg_num": 257}, errno.ERANGE, "at most 256"),
        ("osd pool create", {"pool": "p", "pg_num": 3, "pgp_num": 9}, errno.ERANGE, "'pgp_num' must be"),
        ("fs dump", {"epoch": 7}, errno.ENOENT, "epoch 7"),
        ("osd info", {"id": "7"}, errno.EINVAL, "osd.7 does not exist"),
        ("osd status", {"bucket": "none"}, errno.EINVAL, "'none' not a"),
        ("osd pool set-quota", {"pool": "objects", "field": "max_objects", "val": "1Ki"}, errno.EINVAL, "parsing"),
        ("osd pool create", {"pool": "p", "size": 3}, errno.EINVAL, "one copy"),
        ("osd pool create", {"pool": "p", "pool_type": "erasure"}, errno.EOPNOTSUPP, "erasure"),
        ("osd pool delete", {"pool": "objects", "pool2": "objects"}, errno.EPERM, "for ever"),
        ("osd pool get", {"pool": "none", "var": "size"}, errno.ENOENT, "unrecognized pool"),
        ("osd map", {"pool": "none", "object": "x"}, errno.ENOENT, "does not exist"),
        ("osd find", {"id": "7"}, errno.ENOENT, "osd.7 does not exist"),
        ("osd crush rule dump", {"name": "none"}, errno.ENOENT, "unknown crush rule"),
        ("mon metadata", {"id": "b"}, errno.ENOENT, "no monitor b"),
        ("osd pool set", {"pool": "objects", "var": "size", "val": "3"}, errno.EOPNOTSUPP, "size is 1"),
        ("pg map", {"pgid": "1.8"}, errno.ENOENT, "does not exist"),
        ("config-key get", {"key": "none"}, errno.ENOENT, "^$"),
        ("config-key set", {"key": "a", "val": "x" * 65537}, errno.EFBIG, "limited to 65536 bytes"),
        ("osd pool create", {"pool": 5}, errno.EINVAL, "^osd pool create: pool is no CephPoolname$"),
        ("osd pool create", {"pool": "p", "pg_num": "x"}, errno.EINVAL, "pg_num is no CephInt$"),
        ("osd out", {"ids": "0"}, errno.EINVAL, "ids is no CephString list$"),
        (
            "osd pool set-quota",
            {"pool": "objects", "field": "max_bytes", "val": "9" * 20},
            errno.EINVAL,
            "parsing",
        ),
        ("osd blocklist", {"blocklistop": "add", "addr": "1.2.3.4:0/5", "expire": 1e10}, errno.EINVAL, "expire"),
        ("osd set", {"key": "bogus"}, errno.EINVAL, "unrecognized flag"),
        ("auth get", {"entity": "client.none"}, errno.ENOENT, "failed to find client.none"),
        ("auth get", {"entity": "nothing"}, errno.EINVAL, "bad entity name"),
        ("auth add", {"entity": "client.x", "caps": ["osd"]}, errno.EINVAL, "SERVICE and CAPS"),
    ],
)
def test_refusals(cluster: Cluster, prefix: str, arguments: dict[str, Any], number: int, words: str) -> None:
    with pytest.raises(CommandError, match=words) as refused:
        run(cluster, prefix, **arguments)
    assert refused.value.errno == number


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["objects", "osd.0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_values_of_parameters_are_answered_or_refused(cluster: Cluster, data: st.DataObject) -> None:
    for prefix, command in COMMANDS.by_prefix.items():
        names = re.findall(r"name=(\w+)", command.signature)
        arguments = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON_VALUES)))
        with suppress(CommandError):
            run(cluster, prefix, **arguments).render("json")
    assert cluster.maps.osdmap.encode(ALL_FEATURES)


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
    cluster.reported = {0: {PgId(1, 0): GroupState(Usage(2, 300))}, 1: {PgId(1, 0): GroupState(Usage(1, 50))}}
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
    with pytest.raises(CommandError, match="cap mon does not match"):
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
    epoch = cluster.maps.osdmap.epoch
    assert ask(PoolOpCode.CREATE, name="made").reply_code == 0  # resent
    assert cluster.maps.osdmap.epoch == epoch
    number = cluster.maps.pool_id("made")
    assert ask(PoolOpCode.DELETE, pool=number).reply_code == 0
    assert cluster.maps.pool_id("made") is None
    assert [ask(PoolOpCode.CREATE_UNMANAGED_SNAP, pool=1).response_data[0] for _ in range(2)] == [1, 2]
    assert ask(PoolOpCode.DELETE_UNMANAGED_SNAP, pool=1, snapid=2).reply_code == 0
    assert cluster.maps.osdmap.removed_snaps_queue == {1: {2: 1}}
    assert ask(PoolOpCode.CREATE_SNAP, pool=1, name="s").reply_code == -errno.EINVAL & 0xFFFFFFFF  # other kind
    assert ask(PoolOpCode.CREATE_SNAP, pool=9, name="s").reply_code == -errno.ENOENT & 0xFFFFFFFF


def test_pool_snapshots_of_librados_come_and_go_once(cluster: Cluster) -> None:
    def ask(op: PoolOpCode, **fields: Any) -> int:
        return pool_operation(cluster, MPoolOp(FSID, 1, op, **fields)).reply_code

    for op, known in ((PoolOpCode.CREATE_SNAP, ["s"]), (PoolOpCode.DELETE_SNAP, [])):
        assert ask(op, name="s") == 0
        epoch = cluster.maps.osdmap.epoch
        assert ask(op, name="s") == 0  # resent
        assert cluster.maps.osdmap.epoch == epoch
        assert [snap.name for snap in cluster.maps.osdmap.pools[1].snaps.values()] == known
    assert ask(PoolOpCode.CREATE_UNMANAGED_SNAP) == -errno.EINVAL & 0xFFFFFFFF


def test_pool_is_full_while_it_has_reached_a_quota(cluster: Cluster) -> None:
    cluster.reported[0] = {PgId(1, 0): GroupState(Usage(3, 5000))}
    for field, over, under in (("max_objects", "3", "4"), ("max_bytes", "4K", "5Ki")):
        run(cluster, "osd pool set-quota", pool="objects", field=field, val=over)
        assert cluster.maps.osdmap.pools[1].flags & PoolFlag.FULL_QUOTA
        assert (
            "hashpspool,full,full_quota" in run(cluster, "osd pool ls", detail="detail").render("plain").decode()
        )
        assert "pool 'objects' is full" in run(cluster, "health", detail="detail").render("plain").decode()
        run(cluster, "osd pool set-quota", pool="objects", field=field, val=under)
        assert not cluster.maps.osdmap.pools[1].flags & PoolFlag.FULL_QUOTA
    assert (
        "max objects: 4 objects  (current num objects: 3 objects)"
        in run(cluster, "osd pool get-quota", pool="objects").render("plain").decode()
    )


def test_a_pool_with_nodelete_is_kept(cluster: Cluster) -> None:
    sure = {"pool": "objects", "pool2": "objects", "yes_i_really_really_mean_it": True}
    run(cluster, "osd pool set", pool="objects", var="nodelete", val="true")
    with pytest.raises(CommandError, match="set nodelete to false"):
        run(cluster, "osd pool delete", **sure)
    run(cluster, "osd pool set", pool="objects", var="nodelete", val="false")
    assert "removed" in run(cluster, "osd pool delete", **sure).status


def test_daemons_and_their_places_are_described(cluster: Cluster) -> None:
    assert [each["hostname"] for each in run(cluster, "osd metadata").value] == ["x", "y"]
    assert run(cluster, "osd find", id="osd.1").value["crush_location"] == {"host": "y", "root": "default"}
    assert list(run(cluster, "osd versions").value.values()) == [2]
    assert run(cluster, "mon metadata", id="a").value["name"] == "a"
    assert run(cluster, "features").value["osd"][0]["num"] == 2
    tree = run(cluster, "osd crush tree").render("plain").decode().splitlines()
    assert [line.split()[-1] for line in tree[1:]] == ["default", "x", "osd.0", "y", "osd.1"]
    assert run(cluster, "osd crush rule dump").value[0]["rule_name"] == "replicated_rule"
    assert run(cluster, "pg map", pgid="1.7").value["pgid"] == "1.7"
    assert len(run(cluster, "pg ls-by-pool", poolstr="objects").value["pg_stats"]) == 8


def test_blocklist_entries_end_in_time(cluster: Cluster) -> None:
    run(cluster, "osd blocklist", blocklistop="add", addr="10.0.0.1:0/7", expire="0.001")
    run(cluster, "osd blocklist", blocklistop="add", addr="10.0.0.2:0/7", expire=1000)
    while len(cluster.maps.osdmap.blocklist) == 2:
        assert expire(cluster) is not None
    assert "10.0.0.2:0/7 " in run(cluster, "osd blocklist ls").render("plain").decode()
    gone = run(cluster, "osd blocklist", blocklistop="rm", addr="10.0.0.1:0/7")
    assert "isn't blocklisted" in gone.status
    run(cluster, "osd blocklist", blocklistop="rm", addr="10.0.0.2:0/7")
    assert expire(cluster) is None


def test_forms_of_numbers_and_tables() -> None:
    assert [size(n) for n in (0, 1023, 1536, 200 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "200 MiB",
        "3.0 TiB",
    ]
    assert table([["A", "B"], ["x", "10"]]) == "A   B\nx  10\n"
