"""Ceph's own clients with snapshots, clones, copies and the blocklist of embedded clusters."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from messenger.errors import LocalError
from tests.support.embedded import StandIn
from toolkit.cluster import Cluster
from toolkit.cluster.daemons import run_tool

pytestmark = [pytest.mark.needs("ceph"), pytest.mark.xdist_group("embedded")]

CONTENT = Random(1).randbytes(5_000_000)


@pytest.fixture
def standing(msgrlab_cluster: Callable[..., Cluster]) -> StandIn:
    """A cluster; the invariants must hold of what it has recorded."""
    return StandIn(msgrlab_cluster("embedded", settings=["speaks.mode=secure"], shared=True, check=True))


class Images:
    """The images of a pool, by Ceph's ``rbd``."""

    def __init__(self, standing: StandIn, directory: Path) -> None:
        self._conf = str(standing.conf)
        self._directory = directory
        self.full = directory / "full"
        self.full.write_bytes(CONTENT)

    def __call__(self, *arguments: str) -> str:
        return run_tool("rbd", "-c", self._conf, *arguments)

    def content(self, image: str) -> bytes:
        exported = self._directory / "exported"
        exported.unlink(missing_ok=True)
        self("export", "--no-progress", image, str(exported))
        return exported.read_bytes()


@pytest.fixture
def rbd(standing: StandIn, tmp_path: Path) -> Images:
    return Images(standing, tmp_path)


def test_snapshots_of_a_pool_keep_its_objects(standing: StandIn, tmp_path: Path) -> None:
    pool = ("-p", "snaps")
    standing.ceph("osd", "pool", "create", "snaps", "8")
    standing.rados(*pool, "put", "a", "-", stdin="before")
    standing.rados(*pool, "mksnap", "s")
    standing.rados(*pool, "put", "a", "-", stdin="after")
    standing.rados(*pool, "put", "b", "-", stdin="new")
    assert standing.rados(*pool, "-s", "s", "get", "a", "-").endswith("before")
    listed = json.loads(standing.rados(*pool, "listsnaps", "a", "--format", "json"))
    assert [(each["id"], each["size"]) for each in listed["clones"]] == [(1, 6), ("head", 5)]
    standing.rados(*pool, "rollback", "a", "s")
    assert standing.rados(*pool, "get", "a", "-") == "before"
    standing.rados(*pool, "rm", "a")
    assert sorted(standing.rados(*pool, "ls").split()) == ["a", "b"]  # as long as a snapshot has it
    assert standing.rados(*pool, "-s", "s", "get", "a", "-").endswith("before")
    standing.rados(*pool, "rmsnap", "s")
    assert standing.rados(*pool, "ls").split() == ["b"]
    assert standing.rados(*pool, "lssnap").strip() == "0 snaps"


def test_objects_are_copied_between_osds_and_pools(standing: StandIn) -> None:
    source = ("-p", "objects")
    for number in range(6):  # on different OSDs
        oid = f"copied{number}"
        standing.rados(*source, "put", oid, "-", stdin=f"content {number}")
        standing.rados(*source, "setxattr", oid, "k", "v")
        standing.rados(*source, "setomapval", oid, "key", "value")
        standing.rados(*source, "cp", oid, f"{oid}.copy", "--target-pool", "rbd")
        copy = ("-p", "rbd")
        assert standing.rados(*copy, "get", f"{oid}.copy", "-") == f"content {number}"
        assert standing.rados(*copy, "listxattr", f"{oid}.copy").split() == ["k"]
        assert standing.rados(*copy, "listomapkeys", f"{oid}.copy").split() == ["key"]
        standing.rados(*copy, "rm", f"{oid}.copy")
    with pytest.raises(LocalError, match="No such file"):
        standing.rados(*source, "cp", "none", "copy")


@pytest.mark.parametrize("features", ["layering", "layering,exclusive-lock,deep-flatten"])
def test_snapshots_of_an_image_keep_its_content(rbd: Images, features: str) -> None:
    rbd("import", "--no-progress", "--image-feature", features, str(rbd.full), "image")
    rbd("snap", "create", "--no-progress", "image@first")
    rbd("bench", "image", "--io-type", "write", "--io-size", "4K", "--io-total", "256K", "--io-pattern", "rand")
    assert rbd.content("image") != CONTENT
    assert rbd.content("image@first") == CONTENT
    assert "image@first" in rbd("du")
    rbd("snap", "limit", "set", "image", "--limit", "1")
    with pytest.raises(LocalError, match="quota"):
        rbd("snap", "create", "--no-progress", "image@second")
    rbd("snap", "limit", "clear", "image")
    rbd("snap", "rename", "image@first", "image@other")
    rbd("snap", "rollback", "--no-progress", "image@other")
    assert rbd.content("image") == CONTENT
    rbd("snap", "purge", "--no-progress", "image")
    rbd("rm", "--no-progress", "image")
    assert rbd("ls") == ""


def test_clones_share_data_until_they_are_flattened(rbd: Images) -> None:
    rbd("import", "--no-progress", str(rbd.full), "parent")
    rbd("snap", "create", "--no-progress", "parent@s")
    with pytest.raises(LocalError, match="must be protected"):
        rbd("clone", "--rbd-default-clone-format", "1", "parent@s", "child")
    rbd("snap", "protect", "parent@s")
    rbd("clone", "--rbd-default-clone-format", "1", "parent@s", "child")
    assert rbd.content("child") == CONTENT
    assert "rbd/child" in rbd("children", "parent@s")
    with pytest.raises(LocalError, match="busy"):
        rbd("snap", "unprotect", "parent@s")
    rbd("bench", "child", "--io-type", "write", "--io-size", "4K", "--io-total", "64K")  # copies up
    changed = rbd.content("child")
    blocks = range(0, len(CONTENT), 4096)
    assert sum(changed[at : at + 4096] != CONTENT[at : at + 4096] for at in blocks) == 16
    assert rbd.content("parent") == CONTENT
    rbd("flatten", "--no-progress", "child")
    rbd("snap", "unprotect", "parent@s")

    rbd("clone", "--rbd-default-clone-format", "2", "parent@s", "later")
    rbd("snap", "rm", "--no-progress", "parent@s")  # stays for its clone
    assert rbd("snap", "ls", "parent") == ""
    assert "trash" in rbd("snap", "ls", "--all", "parent")
    assert rbd.content("later") == CONTENT
    rbd("flatten", "--no-progress", "later")
    assert rbd("snap", "ls", "--all", "parent") == ""
    for name in ("child", "later", "parent"):
        rbd("rm", "--no-progress", name)


def test_images_of_a_namespace_are_apart(rbd: Images) -> None:
    rbd("namespace", "create", "rbd/space")
    rbd("create", "rbd/space/image", "--size", "1M")
    assert (rbd("ls"), rbd("ls", "rbd/space").split()) == ("", ["image"])
    with pytest.raises(LocalError, match="namespace"):
        rbd("ls", "rbd/none")
    rbd("rm", "--no-progress", "rbd/space/image")
    rbd("namespace", "rm", "rbd/space")
    assert rbd("namespace", "ls") == ""


def test_features_that_are_not_supported_are_refused(rbd: Images) -> None:
    with pytest.raises(LocalError, match="not supported"):
        rbd("create", "image", "--size", "1M", "--image-feature", "exclusive-lock,object-map")
    rbd("create", "image", "--size", "1M", "--image-feature", "exclusive-lock")
    with pytest.raises(LocalError, match="not supported"):
        rbd("feature", "enable", "image", "object-map")
    rbd("feature", "disable", "image", "exclusive-lock")
    rbd("rm", "--no-progress", "image")


def test_broken_lock_ends_its_owner(standing: StandIn, rbd: Images) -> None:
    rbd("create", "image", "--size", "1M")
    rbd("lock", "add", "image", "mine")
    (lock,) = json.loads(rbd("lock", "ls", "image", "--format", "json"))
    rbd("lock", "rm", "image", "mine", lock["locker"])
    listed = json.loads(standing.ceph("osd", "blocklist", "ls", "--format", "json"))
    assert [each["addr"] for each in listed] == [lock["address"].removeprefix("v2:")]
    standing.ceph("osd", "blocklist", "rm", listed[0]["addr"])
    rbd("rm", "--no-progress", "image")
