"""Proxies on links to embedded daemons."""

import pytest

from tests.support.clusters import msgrlab, state
from toolkit.cluster import up
from toolkit.cluster.spec import ClusterSpec

__all__ = ["state"]

pytestmark = [pytest.mark.needs("netns", "nft")]

_UNSEEN = "rules see no frames of this link: "


def spec(*ways: dict[str, str]) -> ClusterSpec:
    return ClusterSpec.model_validate(
        {
            "name": "unseen",
            "nodes": {
                "mon": {"ceph": "mon"},
                "osd": {"ceph": "osd"},
                "app": {"rados": "client.app", "pool": "objects"},
            },
            "ceph": {"release": "embedded", "pools": {"objects": 8}},
            "speaks": {"mode": "secure"},
            "proxies": [*ways],
        }
    )


def test_a_rule_for_a_link_without_keys_is_recorded_as_blind(state: object) -> None:
    with up(spec({"from": "app", "to": "osd"}), backend="netns") as cluster:
        app = cluster.nodes["app"]
        assert app.command("fill", count=2)["pending"] == []
        assert not list(cluster.history.so_far().of("path"))  # nothing has asked for frames
        cluster.fault("proxy app osd 'dial #1: refuse'")
        assert not list(cluster.history.so_far().of("path"))  # such a rule needs none
        cluster.fault("proxy app osd '-> MESSAGE osd_op #1: cut'")
        (unseen,) = cluster.history.so_far().of("path")
        assert (unseen["a"], unseen["b"], unseen["fault"]) == ("app", "osd", "blind")
        assert unseen["detail"].startswith(_UNSEEN)
        assert "service key of osd" in unseen["detail"]
        cluster.fault("reset app osd")
        assert app.command("fill", count=2, prefix="later")["pending"] == []
        assert [each["fault"] for each in cluster.history.so_far().of("path")].count("blind") == 2


def test_keys_learnt_from_the_link_to_the_monitor_open_links_to_osds(state: object) -> None:
    with up(spec({"from": "app", "to": "osd"}, {"from": "app", "to": "mon"}), backend="netns") as cluster:
        cluster.fault("proxy app osd '-> MESSAGE osd_op #1: cut'")
        app = cluster.nodes["app"]
        assert app.command("fill", count=2)["pending"] == []
        history = cluster.history.so_far()
        assert [cut["at"]["tag"] for cut in history.of("cut")] == ["MESSAGE"]
        assert not list(history.of("path"))


def test_a_capture_shows_each_redirected_connection_once(state: object) -> None:
    with up(spec({"from": "app", "to": "osd"}), backend="netns") as cluster:
        path = cluster.start_capture("app").path
        assert path is not None
        assert cluster.nodes["app"].command("fill", count=2)["pending"] == []
        cluster.stop_capture("app")
        decoded = msgrlab("decode", str(path))
        assert "osd_op_reply" not in decoded.stdout  # sealed, as nobody has the keys
        peers = {line.split("→")[1].strip() for line in decoded.stdout.splitlines() if line.startswith("link ")}
        assert peers == {f"{cluster.backend.hosts['osd'].addresses['public']}:6800"}
        assert "does not have these bytes" not in decoded.stdout
