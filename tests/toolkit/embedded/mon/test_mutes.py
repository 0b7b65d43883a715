"""``ceph health mute``: a warning that an operator knows does not hide the others."""

import errno
import time
from typing import Any

import pytest

from toolkit.embedded.mon.answers import COMMANDS, Answer, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.monitor import Monitor

assert Monitor  # its module has all commands


def run(cluster: Cluster, prefix: str, **arguments: Any) -> Answer:
    return COMMANDS.run(cluster, {"prefix": prefix, **arguments})


def plain(cluster: Cluster, prefix: str, **arguments: Any) -> str:
    return run(cluster, prefix, **arguments).render("plain").decode()


def test_a_muted_warning_does_not_count(cluster: Cluster) -> None:
    run(cluster, "osd set", key="noout")
    run(cluster, "health mute", code="OSDMAP_FLAGS", ttl="1h")
    assert plain(cluster, "health") == "HEALTH_OK (muted: OSDMAP_FLAGS(59m))\n"
    assert "\n(MUTED ttl 59m) [WRN] OSDMAP_FLAGS: noout" in plain(cluster, "health", detail="detail")
    assert "health: HEALTH_OK\n            (muted: OSDMAP_FLAGS(59m))\n" in plain(cluster, "status")
    value = run(cluster, "health").value
    assert (value["status"], value["checks"]["OSDMAP_FLAGS"]["muted"]) == ("HEALTH_OK", True)
    (mute,) = value["mutes"]
    assert (mute["code"], mute["sticky"], mute["summary"]) == ("OSDMAP_FLAGS", False, "noout flag(s) set")
    cluster.maps.mark_down(1)
    assert plain(cluster, "health").startswith("HEALTH_WARN 1 osds down; ")
    run(cluster, "health unmute", code="OSDMAP_FLAGS")
    assert "noout" in plain(cluster, "health")
    assert run(cluster, "health").value["mutes"] == []


def test_a_mute_ends_with_its_warning_unless_it_is_sticky(cluster: Cluster) -> None:
    run(cluster, "osd set", key="noout")
    run(cluster, "health mute", code="OSDMAP_FLAGS")
    run(cluster, "health mute", code="OSD_DOWN", sticky=True)
    assert plain(cluster, "health") == "HEALTH_OK (muted: OSDMAP_FLAGS OSD_DOWN)\n"
    run(cluster, "osd unset", key="noout")
    assert plain(cluster, "health") == "HEALTH_OK (muted: OSD_DOWN)\n"
    cluster.maps.mark_down(1)
    assert "(MUTED, STICKY) [WRN] OSD_DOWN" in plain(cluster, "health", detail="detail")
    run(cluster, "health unmute")
    assert "1 osds down" in plain(cluster, "health")


def test_a_mute_ends_in_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    run(cluster, "osd set", key="noout")
    run(cluster, "health mute", code="OSDMAP_FLAGS", ttl="1h")
    later_s = time.time() + 3601
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert plain(cluster, "health") == "HEALTH_WARN noout flag(s) set\n"


@pytest.mark.parametrize(
    ("arguments", "number", "words"),
    [
        ({"code": "OSD_DOWN"}, errno.ENOENT, "OSD_DOWN is not currently raised"),
        ({"code": "OSD_DOWN", "ttl": "1x"}, errno.EINVAL, "invalid duration: 1x"),
    ],
)
def test_refusals(cluster: Cluster, arguments: dict[str, Any], number: int, words: str) -> None:
    with pytest.raises(CommandError, match=words) as refused:
        run(cluster, "health mute", **arguments)
    assert refused.value.errno == number
    assert cluster.mutes == {}
