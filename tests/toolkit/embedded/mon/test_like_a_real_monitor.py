"""Answers of the embedded monitor that scripts for real clusters rely on: exit codes, fields, what is refused."""

import errno
import json
from typing import Any

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.codec import Decoder
from messenger.denc.features import ALL_FEATURES
from messenger.messages.log import LogPriority
from messenger.messages.monmap import MonMap
from messenger.messages.pg import PgId
from messenger.messages.pools import MPoolOp, PoolOpCode
from tests.toolkit.embedded.mon.conftest import FSID
from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.log import MOST_ENTRIES
from toolkit.embedded.mon.log_commands import Observer
from toolkit.embedded.mon.manager import run_command
from toolkit.embedded.mon.maps import now
from toolkit.embedded.mon.monitor import Monitor
from toolkit.embedded.mon.pools import pool_operation
from toolkit.embedded.usage import GroupState, Usage

assert Monitor  # its module has all commands

SURE = {"yes_i_really_mean_it": True}


def run(cluster: Cluster, prefix: str, **arguments: Any) -> Answer:
    return COMMANDS.run(cluster, {"prefix": prefix, **arguments})


def sent(cluster: Cluster, prefix: str, given: bytes = b"", **arguments: Any) -> tuple[int, str, bytes]:
    """Run a command as a client sends it."""
    return run_command(cluster, [json.dumps({"prefix": prefix, **arguments})], given)


def plain(cluster: Cluster, prefix: str, **arguments: Any) -> str:
    return run(cluster, prefix, **arguments).render("plain").decode()


@pytest.mark.parametrize(
    ("prefix", "arguments", "number", "words"),
    [
        ("osd pool create", {"pool": "p", "rule": "none"}, errno.ENOENT, "specified rule none doesn't exist"),
        ("osd pool set", {"pool": "objects", "var": "pg_num", "val": "x"}, errno.EINVAL, "integer value 'x'"),
        ("osd pool set", {"pool": "objects", "var": "pgp_num", "val": "0"}, errno.ERANGE, "greater than 0"),
        ("osd pool set", {"pool": "objects", "var": "size", "val": "1"}, errno.EPERM, "yes-i-really-mean-it"),
        ("osd pool set", {"pool": "objects", "var": "min_size", "val": "2"}, errno.EINVAL, "from 1 to the size"),
        ("osd pool set", {"pool": "objects", "var": "crush_rule", "val": "none"}, errno.ENOENT, "none"),
        ("osd pool application get", {"pool": "objects", "app": "none"}, errno.ENOENT, "no application"),
        ("osd ok-to-stop", {"ids": ["0"]}, errno.EBUSY, "would become offline"),
        ("osd safe-to-destroy", {"ids": ["0"]}, errno.EBUSY, "currently mapped"),
        ("osd out", {"ids": ["x"]}, errno.EINVAL, "invalid osd id 'x'"),
        ("osd down", {"ids": ["x"]}, errno.EINVAL, "invalid osd id 'x'"),
        ("osd reweight", {"id": "0", "weight": "0.5"}, errno.EOPNOTSUPP, "move no objects"),
        ("osd reweight", {"id": "0", "weight": "2.0"}, errno.EINVAL, "not in"),
        ("osd rm", {"ids": ["0"]}, errno.EBUSY, "osd.0 is up"),
        ("osd lost", {"id": "0"}, errno.EPERM, "yes-i-really-mean-it"),
        ("osd purge", {"id": "0", **SURE}, errno.EBUSY, "not `down`"),
        ("osd ls-tree", {"name": "none"}, errno.ENOENT, "does not exist"),
        ("osd df", {"output_method": "tree", "filter_by": "name", "filter": "z"}, errno.EINVAL, "crush node"),
        ("osd tree", {"states": ["sideways"]}, errno.EINVAL, "invalid state"),
        ("pg ls", {"states": ["shiny"]}, errno.EINVAL, "not a valid pg state"),
        ("pg ls-by-osd", {"osd": "7"}, errno.ENOENT, "does not exist"),
        ("pg dump_stuck", {"stuckops": ["happy"]}, errno.EINVAL, "happy"),
        ("auth import", {}, errno.EINVAL, "no data"),
        ("auth get-or-create", {"entity": "client.x", "caps": ["mon", "garbage"]}, errno.EINVAL, "parse failed"),
        ("log last", {"level": "loud"}, errno.EINVAL, "unknown level"),
        ("log last", {"num": 0}, errno.EINVAL, "at least one"),
        ("node ls", {"type": "toaster"}, errno.EINVAL, "unknown type"),
        ("mon ok-to-stop", {"ids": ["a"]}, errno.EBUSY, "not enough monitors"),
        ("mon ok-to-rm", {"id": "a"}, errno.EBUSY, "break quorum"),
        ("mon getmap", {"epoch": 7}, errno.ENOENT, "epoch 7"),
        ("mgr metadata", {"who": "none"}, errno.ENOENT, "no manager none"),
        ("mgr module enable", {"module": "prometheus"}, errno.ENOENT, "do not support module"),
        ("orch status", {}, errno.ENOENT, "No orchestrator configured"),
        ("osd set-require-min-compat-client", {"version": "bogus"}, errno.EINVAL, "bogus is not recognized"),
        ("osd tree", {"format": "xml"}, errno.EOPNOTSUPP, "no output in xml"),
    ],
)
def test_refusals(cluster: Cluster, prefix: str, arguments: dict[str, Any], number: int, words: str) -> None:
    epoch = cluster.maps.osdmap.epoch
    with pytest.raises(CommandError, match=words) as refused:
        run(cluster, prefix, **arguments)
    assert refused.value.errno == number
    assert cluster.maps.osdmap.epoch == epoch


def test_osds_are_marked_down_and_shown_by_state(cluster: Cluster) -> None:
    assert run(cluster, "osd down", ids=["osd.1", "7"]).status == "marked down osd.1. osd.7 does not exist."
    assert run(cluster, "osd down", ids=["1"]).status == "osd.1 is already down."
    for states, names in ((["down"], ["osd.1"]), (["up", "in"], ["osd.0"]), (["out"], []), (["destroyed"], [])):
        nodes = run(cluster, "osd tree", states=states).value["nodes"]
        assert [node["name"] for node in nodes if node["type"] == "osd"] == names
        assert ("default" in [node["name"] for node in nodes]) == bool(names)
    with pytest.raises(CommandError, match="keep the OSDs") as refused:
        run(cluster, "osd purge", id="1", **SURE)
    assert refused.value.errno == errno.EOPNOTSUPP
    assert run(cluster, "osd out", ids=["9"]).status == "osd.9 does not exist."
    stuck = run(cluster, "pg dump_stuck", stuckops=["inactive"]).value["stuck_pg_stats"]
    assert len(stuck) == cluster.pg_states()["unknown"] > 0


def test_ok_to_stop_tells_why_not_as_json(cluster: Cluster) -> None:
    number, _, output = sent(cluster, "osd ok-to-stop", ids=["0", "1"])
    assert (number, json.loads(output)["num_not_ok_pgs"]) == (-errno.EBUSY, 8)
    cluster.maps.mark_in(1, inside=False)
    assert run(cluster, "osd ok-to-stop", ids=["1"]).value["ok_to_stop"]
    assert "safe to destroy" in run(cluster, "osd safe-to-destroy", ids=["1"]).status


def test_space_of_osds_adds_up(cluster: Cluster) -> None:
    cluster.reported = {
        0: {PgId(1, 0): GroupState(Usage(2, 3 << 20))},
        1: {PgId(1, 0): GroupState(Usage(1, 1 << 20))},
    }
    value = run(cluster, "osd df").value
    assert [node["kb_used"] for node in value["nodes"]] == [3 << 10, 1 << 10]
    assert sum(node["pgs"] for node in value["nodes"]) == 8
    assert [node["var"] for node in value["nodes"]] == [1.5, 0.5]
    assert value["summary"]["total_kb_used"] == 4 << 10
    tree = plain(cluster, "osd df", output_method="tree", filter_by="name", filter="y")
    assert [name in tree for name in ("root default", "host y", "osd.1", "host x", "osd.0")] == [True] * 3 + [
        False
    ] * 2
    pool = run(cluster, "df", detail="detail").value["pools"][0]["stats"]
    assert (pool["stored_data"], pool["quota_bytes"]) == (4 << 20, 0)
    assert "QUOTA OBJECTS" in plain(cluster, "df", detail="detail")


def test_pools_take_the_options_of_scripts(cluster: Cluster) -> None:
    made = {"pool": "p", "pg_num": 8, "pgp_num": 8, "pool_type": "replicated"}
    run(
        cluster, "osd pool create", **made, erasure_code_profile="replicated_rule", autoscale_mode="off", bulk=True
    )
    assert run(cluster, "osd pool get", pool="p", var="bulk").value["bulk"] is True
    assert "not allowed" in run(cluster, "osd pool create", pool=".p").status
    assert ".p" not in plain(cluster, "osd pool ls")
    run(cluster, "osd pool rename", srcpool="p", destpool="q")
    assert "has the name 'q' already" in run(cluster, "osd pool rename", srcpool="p", destpool="q").status
    assert "to 1" in run(cluster, "osd pool set", pool="q", var="size", val="1", **SURE).status
    described = run(cluster, "osd pool ls", detail="detail").value
    assert [(each["pool_id"], each["pool_name"]) for each in described] == [(1, "objects"), (2, "q")]
    reply = pool_operation(cluster, MPoolOp(FSID, 0, PoolOpCode.CREATE, name="r", crush_rule=7))
    assert reply.reply_code == -errno.ENOENT & 0xFFFFFFFF


def test_a_second_application_needs_a_confirmation(cluster: Cluster) -> None:
    run(cluster, "osd pool application enable", pool="objects", app="rados")
    run(cluster, "osd pool application enable", pool="objects", app="rados")
    with pytest.raises(CommandError, match="has another application") as refused:
        run(cluster, "osd pool application enable", pool="objects", app="rbd")
    assert refused.value.errno == errno.EPERM
    run(cluster, "osd pool application enable", pool="objects", app="rbd", **SURE)
    run(cluster, "osd pool application set", pool="objects", app="rbd", key="k", value="v")
    assert run(cluster, "osd pool application get", pool="objects", app="rbd").value == {"k": "v"}
    assert plain(cluster, "osd pool application get", pool="objects", app="rbd", key="k") == "v\n"


def test_an_application_is_disabled_once_or_more(cluster: Cluster) -> None:
    run(cluster, "osd pool application enable", pool="objects", app="rados")
    with pytest.raises(CommandError, match="Are you SURE") as refused:
        run(cluster, "osd pool application disable", pool="objects", app="rbd")
    assert refused.value.errno == errno.EPERM
    done = [run(cluster, "osd pool application disable", pool="objects", app="rados", **SURE) for _ in range(2)]
    assert ["is not enabled" in answer.status for answer in done] == [False, True]
    assert run(cluster, "osd pool application get", pool="objects").value == {}


def test_files_are_the_input_of_commands(cluster: Cluster) -> None:
    assert sent(cluster, "config-key set", b"\x00\xffbinary", key="k")[0] == 0
    assert sent(cluster, "config-key get", key="k")[2] == b"\x00\xffbinary"
    json.loads(sent(cluster, "config-key dump", format="json")[2])
    made = plain(cluster, "auth get-or-create", entity="client.x", caps=["mon", "allow r"])
    exported = sent(cluster, "auth export")[2]
    run(cluster, "auth rm", entity="client.x")
    assert sent(cluster, "auth import", exported)[0] == 0
    assert made in plain(cluster, "auth get", entity="client.x")
    bare = exported.partition(b"\tcaps")[0]
    for wrong in (bare, b"nonsense", b"[client.y]\nkey = short\n", b"\xff\xfe", b"# nothing"):
        assert sent(cluster, "auth import", wrong)[:2][0] == -errno.EINVAL
    monmap = MonMap.decode(Decoder(sent(cluster, "mon getmap")[2]), ALL_FEATURES)
    assert monmap.fsid == FSID
    assert f"fsid = {FSID}" in sent(cluster, "config generate-minimal-conf")[2].decode()


def test_quotas_have_units_of_thousands_for_objects_and_of_1024_for_bytes(cluster: Cluster) -> None:
    for name, given, most in (
        ("max_objects", "1K", 1000),
        ("max_bytes", "10KB", 10240),
        ("max_bytes", "1G", 1 << 30),
    ):
        status = run(cluster, "osd pool set-quota", pool="objects", field=name, val=given).status
        assert status == f"set-quota {name} = {most} for pool objects"
        assert run(cluster, "osd pool get-quota", pool="objects").value[f"quota_{name}"] == most


def test_osds_show_their_state_and_space(cluster: Cluster) -> None:
    cluster.reported = {0: {PgId(1, 0): GroupState(Usage(2, 3 << 20))}}
    cluster.maps.mark_down(1)
    up, down = plain(cluster, "osd status").splitlines()[1:]
    assert up.split() == ["0", "x", "3.0", "MiB", "1021", "MiB", "0", "0", "0", "0", "exists,up"]
    assert down.split()[-1] == "exists"
    assert [osd["id"] for osd in run(cluster, "osd status", bucket="y").value["OSDs"]] == [1]
    assert plain(cluster, "pg stat").rstrip().endswith("; 3.0 MiB data, 3.0 MiB used, 1021 MiB / 1.0 GiB avail")


def test_the_map_of_file_systems_names_no_daemon(cluster: Cluster) -> None:
    value = run(cluster, "fs dump").value
    assert (value["standbys"], value["filesystems"]) == ([], [])
    assert run(cluster, "mds stat").value["fsmap"] == value


def test_the_oldest_release_of_clients_is_part_of_the_map(cluster: Cluster) -> None:
    assert plain(cluster, "osd get-require-min-compat-client") == "luminous\n"
    status = run(cluster, "osd set-require-min-compat-client", version="mimic").status
    assert status == "set require_min_compat_client to mimic"
    assert cluster.maps.osdmap.require_min_compat_client == 13
    assert run(cluster, "osd dump").value["require_min_compat_client"] == "mimic"
    assert "\nrequire_min_compat_client mimic\n" in plain(cluster, "osd dump")


def test_flags_of_the_map_are_part_of_the_summary(cluster: Cluster) -> None:
    assert "flags" not in plain(cluster, "status")
    run(cluster, "osd set", key="noout")
    run(cluster, "osd set", key="pause")
    lines = plain(cluster, "status").splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("    osd: "))
    assert lines[place + 1] == "         flags pauserd,pausewr,noout"


def test_entities_as_json_have_no_heading(cluster: Cluster) -> None:
    assert run(cluster, "auth ls").status == "installed auth entries:\n"
    assert run(cluster, "auth ls", format="json").status == ""


def test_output_begins_with_its_value(cluster: Cluster) -> None:
    assert run(cluster, "versions").render("json").startswith(b'{"mon":')
    assert run(cluster, "versions").render("plain").startswith(b'{\n    "mon":')
    assert run(cluster, "osd ls").render("json-pretty") == b"[\n    0,\n    1\n]\n"


def test_adding_a_known_entity_needs_the_same_capabilities(cluster: Cluster) -> None:
    caps = ["mon", "profile rbd", "osd", "allow rwx pool=a, allow r pool=b", "mgr", "allow command x"]
    run(cluster, "auth add", entity="client.x", caps=caps)
    run(cluster, "auth add", entity="client.x", caps=caps)
    with pytest.raises(CommandError, match="do not match") as refused:
        run(cluster, "auth add", entity="client.x", caps=["mon", "allow r"])
    assert refused.value.errno == errno.EINVAL


def test_the_log_has_what_happened_to_osds_and_health(cluster: Cluster) -> None:
    observer = Observer(cluster)
    observer.look()
    run(cluster, "log", logtext=["hello", "world"])
    cluster.maps.mark_down(1)
    observer.look()
    cluster.maps.mark_up(1, AddrVec.parse("v2:127.0.0.1:6809/1002"))
    observer.look()
    texts = [entry["message"] for entry in run(cluster, "log last", num=100).value]
    wanted = ["osd.0 ", "osd.1 ", "hello world", "osd.1 (root", "Health check failed: 1 osds down (OSD_DOWN)"]
    wanted += ["osd.1 v2:127.0.0.1:6809/1002 boot", "Health check cleared: OSD_DOWN", "Cluster is now healthy"]
    assert [text[: len(start)] for text, start in zip(texts, wanted, strict=True)] == wanted
    assert "[WRN] Health check failed" in plain(cluster, "log last", level="warn")
    assert run(cluster, "log last", num=100, level="debug").value[2]["message"] == "osdmap e4: 2 total, 2 up, 2 in"
    assert run(cluster, "log last", channel="audit").value == []


def test_the_log_is_bounded_and_goes_on_where_a_subscriber_is(cluster: Cluster) -> None:
    for number in range(MOST_ENTRIES + 10):
        cluster.log.write(now(), str(number), LogPriority.DEBUG if number % 2 else LogPriority.INFO)
    assert len(cluster.log.entries) == MOST_ENTRIES
    newest = cluster.log.version - 1
    assert [entry.seq for entry in cluster.log.since(newest - 2, LogPriority.INFO)] == [newest - 1]
    assert cluster.log.since(newest + 1, LogPriority.DEBUG) == []


@pytest.mark.parametrize(
    ("prefix", "shown"),
    [
        ("balancer status", '"mode": "none"'),
        ("crash stat", "0 crashes recorded"),
        ("device ls", "DEVICE"),
        ("progress json", '"events": []'),
        ("osd perf", "commit_latency(ms)"),
        ("osd blocked-by", "num_blocked"),
        ("osd info", "osd.1 up"),
        ("osd stat", "2 up (since "),
        ("osd crush show-tunables", '"chooseleaf_stable": 1'),
        ("osd crush dump", '"type_name": "host"'),
        ("node ls", '"osd": {'),
        ("time-sync-status", '"finished"'),
        ("osd count-metadata", "16.2.15"),
        ("mgr module ls", "MODULE"),
        ("service dump", '"services": {}'),
        ("pg ls-by-primary", "active+clean"),
        ("osd ls-tree", "0\n1\n"),
    ],
)
def test_questions_of_operators_are_answered(cluster: Cluster, prefix: str, shown: str) -> None:
    arguments = {"property": "ceph_version", "osd": "osd.0", "name": "default"}
    names = COMMANDS.by_prefix[prefix].signature
    given = {name: value for name, value in arguments.items() if f"name={name}," in names}
    assert shown in plain(cluster, prefix, **given)
    answer = run(cluster, prefix, **given)
    assert answer.value is None or json.loads(answer.render("json")) is not None


def test_tools_find_the_fields_that_they_read(cluster: Cluster) -> None:
    cluster.reported = {
        0: {PgId(1, 0): GroupState(Usage(2, 3 << 20))},
        1: {PgId(1, 0): GroupState(Usage(1, 1 << 20))},
    }
    dumped = run(cluster, "pg dump").value["pg_map"]
    assert dumped["pg_stats_sum"]["stat_sum"]["num_bytes"] == 4 << 20
    assert [pool["stat_sum"]["num_objects"] for pool in dumped["pool_stats"]] == [3]
    assert [osd["kb_used"] for osd in dumped["osd_stats"]] == [3 << 10, 1 << 10]
    assert sum(osd["num_pgs"] for osd in dumped["osd_stats"]) == len(dumped["pg_stats"]) == 8
    assert set(run(cluster, "pg dump", dumpcontents=["osds"]).value) == {"pg_ready", "osd_stats", "osd_stats_sum"}
    assert "pg_stats" not in run(cluster, "pg dump", dumpcontents=["sum"]).value["pg_map"]
    (osd, _), (pool,) = (run(cluster, "osd dump").value[part] for part in ("osds", "pools"))
    assert osd["cluster_addrs"] == osd["public_addrs"]
    assert run(cluster, "mon dump").value["mons"][0]["public_addr"] == "127.0.0.1:6789/0"
    assert (pool["cache_mode"], pool["tier_of"], pool["options"]) == ("none", -1, {})
    assert run(cluster, "mon dump").value["features"]["persistent"][-1] == "pacific"
    assert run(cluster, "pg stat").value["pg_summary"]["total_used_bytes"] == 4 << 20
    assert [node["crush_weight"] for node in run(cluster, "osd crush tree").value["nodes"]] == [
        2.0,
        1.0,
        1.0,
        1.0,
        1.0,
    ]
