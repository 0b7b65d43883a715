"""The syntax of capabilities: what a monitor of Ceph 16.2 takes, and what it refuses."""

import errno

import pytest

from toolkit.embedded.mon.answers import COMMANDS, CommandError
from toolkit.embedded.mon.capabilities import mistake
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.monitor import Monitor

assert Monitor  # its module has all commands

WELL_FORMED = {
    "mon": [
        *("allow r", "allow *", "allow all", "allow x, profile osd", "allow r;allow w", "allow profile osd"),
        *("profile crash", "profile bogus", "allow rwx network 1.2.3.0/24", "allow r network 1.2.3.4"),
        *(
            "allow service osd rw",
            "allow r fsname=cephfs",
            "allow command=foo",
            "allow command foo with a prefix b",
        ),
        "allow command 'osd dump' with a=b, allow r",
        'allow command "auth get-key" with entity prefix client.',
    ],
    "osd": [
        *("allow *", "allow rwx pool=x namespace=n", "allow rw namespace n*", "allow rwx pool='x'", "allow rx"),
        *("profile rbd pool=x, allow r", "profile rbd-read-only pool=x namespace=y", "allow rw tag cephfs *=*"),
        *("allow class foo x", "allow class rbd", "allow pool x rw", "allow rwx pool=x object_prefix p"),
        "allow class-read object_prefix rbd_children, allow rwx pool=x",
    ],
    "mds": [
        *("allow", "allow *", "allow rwps", "allow rw fsname=a path=/b", "allow rw path=/a root_squash"),
        *("allow rw uid=1 gids=1,2, allow r", "allow rws path=/a, allow r"),
    ],
    "mgr": [
        *("allow *", "allow profile osd", "profile rbd pool=x", "profile osd, allow r", "profile rbd-read-only"),
        *("allow module x with a=b rw", "allow command foo with a=b", "allow service=osd rw"),
    ],
}

MISTAKEN = {
    "mon": [
        *("allow", "allow foo bar", "allow r bogus", "", "*", "deny r", "allow rwa", "allow r network", "Allow r"),
        *("allow r,", "allow r allow w", "allow class-read", 'allow "osd dump"', "allow fsname=a"),
    ],
    "osd": [
        *("allow qq pool=x", "allow r pool=", "allow w x", "allow wr", "allow rw pool a b", "allow rw tag cephfs"),
        *("allow rw pool=x, allow bogus", "allow r, deny", "allow profile osd", "allow rwxclass-read"),
        "allow rwx object_prefix p pool=x",
    ],
    "mds": [
        "allow wrong",
        "allow wr",
        "allow r path /a",
        "allow rw path=/b fsname=a",
        "profile mds",
        "allow uid=1",
    ],
    "mgr": [
        "allow",
        "allow bogus",
        "profile bogus",
        "allow module x",
        "profile rbd-mirror",
        "allow profile bogus",
    ],
}


@pytest.mark.parametrize(("service", "text"), [(name, text) for name in WELL_FORMED for text in WELL_FORMED[name]])
def test_capabilities_that_a_real_monitor_takes(service: str, text: str) -> None:
    assert mistake(service, text) == ""


@pytest.mark.parametrize(("service", "text"), [(name, text) for name in MISTAKEN for text in MISTAKEN[name]])
def test_capabilities_that_a_real_monitor_refuses(service: str, text: str) -> None:
    assert mistake(service, text).startswith(f"{service} capability parse failed, stopped at '")


def test_the_text_names_what_is_wrong() -> None:
    shown = mistake("osd", "allow rw pool=x, allow bogus")
    assert shown == "osd capability parse failed, stopped at 'allow bogus' of 'allow rw pool=x, allow bogus'"
    assert mistake("foo", "allow r") == "unknown cap type 'foo'"


def test_a_command_with_a_mistake_changes_nothing(cluster: Cluster) -> None:
    made = {"entity": "client.x", "caps": ["mon", "allow r"]}
    COMMANDS.run(cluster, {"prefix": "auth add", **made})
    before, given = dict(cluster.keys.principals), ["mon", "allow r", "osd", "allow qq pool=x"]
    for prefix, entity in (
        ("auth caps", "client.x"),
        ("auth add", "client.y"),
        ("auth get-or-create", "client.y"),
    ):
        with pytest.raises(CommandError, match="osd capability parse failed") as refused:
            COMMANDS.run(cluster, {"prefix": prefix, "entity": entity, "caps": given})
        assert refused.value.errno == errno.EINVAL
    assert cluster.keys.principals == before
