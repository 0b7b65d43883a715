"""Images as directories, without making any."""

from pathlib import Path

import pytest

from captures.recipes import RECIPES
from messenger.errors import LocalError
from tests.support.users import OTHER_UID, as_user, needs_root, shared
from toolkit.cluster import images
from toolkit.cluster.images import archive, debian
from toolkit.cluster.images.archive import Archive
from toolkit.errors import Unsupported

__all__ = ["shared"]


def test_images_are_of_four_releases(monkeypatch, tmp_path):
    assert {recipe.release for recipe in RECIPES.values()} == set(images.RELEASES)
    with pytest.raises(LocalError, match="no image of Ceph 'quincy'; known: nautilus, pacific"):
        images.find_or_build("quincy")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert images.default_root() == tmp_path / "msgrlab" / "images"


def ready(directory, version):
    (directory / "etc").mkdir(parents=True)
    (directory / "etc" / "msgrlab-image").write_text(f"{version}\n")


def test_find_or_build_returns_an_existing_image(tmp_path):
    ready(tmp_path / "ceph-reef", "18.2.7")
    directory = images.find_or_build("reef", tmp_path, announce=pytest.fail)
    assert (directory, images.version(directory)) == (tmp_path / "ceph-reef", "18.2.7")


@pytest.mark.parametrize(("uid", "tool", "words"), [(1000, "/x", "made by root"), (0, None, "no debootstrap")])
@pytest.mark.parametrize("make", [lambda root: images.find_or_build("reef", root), debian.python_base])
def test_missing_programs_for_images_are_an_error(monkeypatch, tmp_path, uid, tool, words, make):
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr("shutil.which", lambda _: tool)
    with pytest.raises(Unsupported, match=words):
        make(Path(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_cannot_be_made_leaves_only_a_log(monkeypatch, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _: "/x")
    monkeypatch.setattr(archive, "_DEBOOTSTRAP", ("sh", "-c", "echo no such mirror; exit 1"))
    keys = tmp_path / "keys.gpg"
    keys.touch()
    lines = []
    with pytest.raises(LocalError, match=r"sh ended with exit code 1; what was said is in .*ceph-reef.log"):
        images.find_or_build("reef", tmp_path, lines.append, archive=Archive("http://mirror", keys))
    (announced,) = lines
    assert announced.startswith(f"making an image of Ceph 18.2.7 in {tmp_path}/ceph-reef: ")
    assert f"Debian trixie from http://mirror, verify them with {keys}" in announced
    keys.unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ceph-reef.lock", "ceph-reef.log"]
    assert "no such mirror" in (tmp_path / "ceph-reef.log").read_text()


@needs_root
def test_an_image_that_another_user_could_have_made_is_not_used(shared):
    as_user(OTHER_UID, lambda: ready(shared / "images" / "ceph-reef", "18.2.7"))
    with pytest.raises(LocalError, match=f"{shared}/images belongs to"):
        images.find_or_build("reef", shared / "images", announce=pytest.fail)
    ready(shared / "ours" / "ceph-reef", "18.2.7")
    (shared / "ours" / "ceph-reef").chmod(0o777)
    with pytest.raises(LocalError, match="writable for others: chmod go-w"):
        images.find_or_build("reef", shared / "ours", announce=pytest.fail)
