"""``ceph config``: what the embedded monitor keeps, for whom, and what it refuses as a real one does."""

import errno
import json
from typing import Any

import pytest

from messenger.denc.entity import AuthName
from tests.toolkit.embedded.mon.conftest import FSID
from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.config_commands import options_for


def run(cluster: Cluster, prefix: str, **arguments: Any) -> Answer:
    return COMMANDS.run(cluster, {"prefix": prefix, **arguments})


def put(cluster: Cluster, who: str, name: str, value: str, **arguments: Any) -> None:
    run(cluster, "config set", who=who, name=name, value=value, **arguments)


@pytest.mark.parametrize(
    ("who", "name", "value", "words"),
    [
        ("global", "nonsense", "1", "unrecognized config option 'nonsense'"),
        ("global", "RBD_CACHE", "true", "unrecognized config option 'RBD_CACHE'"),
        ("osd", "osd_max_backfills", "abc", "error parsing value: 'abc' is no uint"),
        ("client", "rbd_cache", "maybe", "error parsing value: 'maybe' is no bool: rbd_cache takes true or false"),
        ("global", "fsid", "abc", "error parsing value"),
        ("osd", "osd_heartbeat_interval", "1K", "error parsing value: Value '1000' exceeds maximum 60"),
        ("osd", "osd_scrub_begin_hour", "-1", "error parsing value: Value '-1' is below minimum 0"),
        ("osd", "osd_memory_target", "1K", "error parsing value: Value '1024' is below minimum 939524096"),
        ("mon", "mon_osd_laggy_weight", "1.5", "error parsing value: Value '1.500000' exceeds maximum 1.000000"),
        (
            "client",
            "rbd_cache_policy",
            "x",
            "not one of the permitted values: writethrough, writeback, writearound",
        ),
        ("global", "fsid", str(FSID), "fsid is special"),
        ("global", "mon_host", "10.0.0.1", "mon_host is special"),
        ("mon", "mon_osd_full_ratio", "0.9", "mon_osd_full_ratio is special"),
        *(
            (who, "rbd_cache", "true", f"unrecognized config target '{who}'")
            for who in ("bad", "foo.bar", "osd/", "osd/x", "/host:x", "OSD", "", "global.x")
        ),
    ],
)
def test_settings_that_a_real_monitor_refuses(
    cluster: Cluster, who: str, name: str, value: str, words: str
) -> None:
    with pytest.raises(CommandError) as refused:
        put(cluster, who, name, value)
    assert refused.value.errno == errno.EINVAL
    assert words in str(refused.value)
    assert (cluster.options, cluster.options_version) == ({}, 1)


def test_values_are_kept_in_the_form_that_clients_get(cluster: Cluster) -> None:
    put(cluster, "client", "rados_osd_op_timeout", "5m")
    put(cluster, "client.x", "rbd cache", "1")
    assert options_for(cluster, AuthName.parse("client.x")) == {"rados_osd_op_timeout": "300", "rbd_cache": "true"}
    assert run(cluster, "config get", who="client.x", key="rbd_cache", format="json").render("json") == b"true\n"
    put(cluster, "client", "nonsense", "maybe", force=True)
    put(cluster, "client", "rbd_cache", "maybe", force=True)
    assert options_for(cluster, AuthName.parse("client.y"))["rbd_cache"] == "maybe"
    levels = {each["name"]: each["level"] for each in run(cluster, "config dump").value}
    assert levels == {"rados_osd_op_timeout": "advanced", "rbd_cache": "advanced", "nonsense": "unknown"}


def test_options_of_a_client_are_the_most_specific_ones(cluster: Cluster) -> None:
    for who, value in (("global", "1"), ("client", "2"), ("client.x", "3")):
        put(cluster, who, "rbd_concurrent_management_ops", value)
    options = [options_for(cluster, AuthName.parse(name)) for name in ("client.x", "client.y", "osd.0")]
    assert [each["rbd_concurrent_management_ops"] for each in options] == ["3", "2", "1"]
    run(cluster, "config rm", who="client.x", name="rbd-concurrent-management-ops")
    answer = run(cluster, "config get", who="client.x")
    assert answer.value == {
        "rbd_concurrent_management_ops": {
            "value": "2",
            "section": "client",
            "mask": {},
            "can_update_at_runtime": True,
        }
    }
    assert answer.render("plain").decode().split("\n")[1].split()[0] == "client"


def test_masks_are_kept_and_shown_and_reach_no_client(cluster: Cluster) -> None:
    put(cluster, "client/host:here", "rbd_cache", "false")
    put(cluster, "osd/class:ssd/host:a", "osd_max_backfills", "2")
    put(cluster, "class:hdd", "osd_max_backfills", "3")
    put(cluster, "osd/osd.1", "osd_max_backfills", "4")
    shown = [(each["section"], each["mask"]) for each in run(cluster, "config dump").value]
    assert shown == [("global", "class:hdd"), ("osd", "host:a/class:ssd"), ("osd.1", ""), ("client", "host:here")]
    lines = run(cluster, "config dump").render("plain").decode().splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["global", ""]
    assert lines[3].startswith("    osd.1 ")
    assert options_for(cluster, AuthName.parse("client.admin")) == {}
    run(cluster, "config rm", who="osd/class:ssd/host:a", name="osd_max_backfills")
    assert len(cluster.options) == 3


@pytest.mark.parametrize(
    ("who", "key", "number", "words"),
    [
        ("osd", "nonsense", errno.ENOENT, "unrecognized key 'nonsense'"),
        ("mgr", "mgr/balancer/mode", errno.ENOENT, "unrecognized key 'mgr/balancer/mode'"),
        ("mon", "mon_host", errno.EINVAL, "special"),
        ("foo", "rbd_cache", errno.EINVAL, "unrecognized entity 'foo'"),
        ("global", "rbd_cache", errno.EINVAL, "unrecognized entity 'global'"),
    ],
)
def test_questions_without_an_answer(cluster: Cluster, who: str, key: str, number: int, words: str) -> None:
    with pytest.raises(CommandError, match=words) as refused:
        run(cluster, "config get", who=who, key=key)
    assert refused.value.errno == number


def test_an_option_that_is_not_set_has_the_default_of_ceph(cluster: Cluster) -> None:
    def get(who: str, key: str) -> str:
        return run(cluster, "config get", who=who, key=key).render("plain").decode()

    assert get("osd", "osd_memory_target") == "4294967296\n"
    assert get("client", "rbd_default_features") == "layering,exclusive-lock,object-map,fast-diff,deep-flatten\n"
    assert (get("client.x", "log_to_stderr"), get("osd.0", "log_to_stderr")) == ("true\n", "false\n")
    assert get("osd", "public_network") == "\n"
    put(cluster, "osd", "osd_memory_target", "2G")
    assert (get("osd.1", "osd_memory_target"), get("mon", "osd_memory_target")) == ("2147483648\n", "4294967296\n")
    assert (
        "\n  Default: 4294967296" in run(cluster, "config help", key="osd_memory_target").render("plain").decode()
    )
    helped = run(cluster, "config help", key="log_to_stderr").render("plain").decode()
    assert "\n  Default (non-daemon): true\n  Default (daemon): false" in helped


def test_the_options_are_listed_with_their_types(cluster: Cluster) -> None:
    assert run(cluster, "config get", who="mon.a", key="fsid").render("plain").decode() == f"{FSID}\n"
    assert "rbd_cache" in json.loads(run(cluster, "config ls").render("json"))
    assert "\nrbd_cache\n" in run(cluster, "config ls").render("plain").decode()
    assert run(cluster, "config help", key="rbd_cache").value == {
        "name": "rbd_cache",
        "type": "bool",
        "level": "advanced",
        "default": "true",
        "daemon_default": "",
        "min": "",
        "max": "",
        "can_update_at_runtime": True,
        "flags": [],
    }
    assert "do not keep" in run(cluster, "config help", key="fsid").render("plain").decode()
    with pytest.raises(CommandError, match="nonsense") as refused:
        run(cluster, "config help", key="nonsense")
    assert refused.value.errno == errno.ENOENT


def test_limits_and_levels_of_options_are_shown(cluster: Cluster) -> None:
    helped = run(cluster, "config help", key="osd_heartbeat_interval")
    assert "\n  (int, dev)\n  Default: 6\n  Minimum: 1\n  Maximum: 60\n" in helped.render("plain").decode()
    assert (helped.value["min"], helped.value["max"]) == ("1", "60")
    helped = run(cluster, "config help", key="osd_op_queue")
    assert helped.value["enum_values"] == ["wpq", "mclock_scheduler", "debug_random"]
    put(cluster, "osd", "osd_op_queue", "wpq")
    put(cluster, "osd", "osd_memory_target", "1G")
    put(cluster, "osd", "bluestore_compression_algorithm", "")
    dumped = {each["name"]: each for each in run(cluster, "config dump").value}
    assert (dumped["osd_memory_target"]["level"], dumped["osd_op_queue"]["level"]) == ("basic", "advanced")
    lines = run(cluster, "config dump").render("plain").decode().splitlines()
    assert [line.split()[2] for line in lines if line.endswith("*")] == ["osd_op_queue"]
    assert not dumped["osd_op_queue"]["can_update_at_runtime"]


def test_changes_of_options_are_logged_and_undone(cluster: Cluster) -> None:
    def log(**arguments: Any) -> list[str]:
        text = run(cluster, "config log", **arguments).render("plain").decode()
        return [line.split(" --- 2")[0] for line in text.splitlines()]

    assert log() == ["--- 1 --- 0.000000 ---"]
    put(cluster, "osd", "osd_max_backfills", "3")
    put(cluster, "osd", "osd_max_backfills", "3")
    put(cluster, "global", "osd_max_backfills", "4")
    put(cluster, "osd", "osd_max_backfills", "5")
    run(cluster, "config rm", who="global", name="osd_max_backfills")
    run(cluster, "config rm", who="global", name="osd_max_backfills")
    assert log(num=2) == [
        "--- 5",
        "- global/osd_max_backfills = 4",
        "--- 4",
        "- osd/osd_max_backfills = 3",
        "+ osd/osd_max_backfills = 5",
    ]
    run(cluster, "config reset", num=3)
    kept = {("osd", "osd_max_backfills"): "3", ("global", "osd_max_backfills"): "4"}
    assert (cluster.options, cluster.options_version) == (kept, 6)
    newest = run(cluster, "config log", num=1).value[0]
    assert (newest["version"], newest["name"]) == (6, "reset to 3")
    assert {"name": "global/osd_max_backfills", "new_value": "4"} in newest["changes"]
    run(cluster, "config reset", num=1)
    assert cluster.options == {}
    with pytest.raises(CommandError, match="no version 8") as refused:
        run(cluster, "config reset", num=8)
    assert refused.value.errno == errno.EINVAL
    assert len(run(cluster, "config log", num=-1).value) == 7
