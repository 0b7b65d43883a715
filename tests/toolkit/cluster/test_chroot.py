"""Programs of an image, and which users can run them."""

import os
import subprocess
from pathlib import Path

import pytest

from toolkit.cluster.backends.base import HostWish
from toolkit.cluster.chroot import IMAGES_VARIABLE, check_drivers, check_images, images_root, in_image
from toolkit.cluster.images import default_root
from toolkit.errors import Unsupported

PUBLIC = ("public",)


def mounts_of(*folders: Path) -> list[str]:
    """The mounts of this machine that have to do with these folders; other tests mount others meanwhile."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if any(str(folder) in line for folder in folders)]


@pytest.mark.needs("ceph-image-reef")
def test_program_of_an_image_does_not_change_the_image(tmp_path: Path) -> None:
    image = images_root() / "ceph-reef"
    script = f"echo written > /etc/left; echo kept > {tmp_path}/kept; cat /etc/left; ceph-mon --version; pwd"
    before = mounts_of(image, tmp_path)
    done = subprocess.run(
        [*in_image(image, tmp_path), "sh", "-ec", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("written\nceph version 18.")
    assert (tmp_path / "kept").read_text() == "kept\n"
    assert not (image / "etc/left").exists()
    assert list((image / "mnt").iterdir()) == []
    assert mounts_of(image, tmp_path) == before


@pytest.mark.needs("ceph-image-reef")
def test_signals_reach_the_program_itself(tmp_path: Path) -> None:
    command = [*in_image(images_root() / "ceph-reef", tmp_path), "sh", "-c", "echo $$; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert int(program.stdout.readline()) == program.pid
        program.terminate()
        assert program.wait(5) < 0


def test_image_outside_docker_is_unsupported() -> None:
    check_images([HostWish("a", PUBLIC)])
    with pytest.raises(Unsupported, match="node a: images such as debian take --backend docker"):
        check_images([HostWish("a", PUBLIC, image="debian")])


def test_images_for_rdma_have_drivers_of_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path))
    hosts = [HostWish("a", PUBLIC), HostWish("mon", PUBLIC, image="ceph:reef")]
    check_drivers(hosts)  # it will be built
    (tmp_path / "ceph-reef/etc").mkdir(parents=True)
    (tmp_path / "ceph-reef/etc/msgrlab-image").touch()
    with pytest.raises(Unsupported, match="ceph-reef lacks ibverbs-providers"):
        check_drivers(hosts)
    drivers = tmp_path / "ceph-reef/usr/lib/x86_64-linux-gnu/libibverbs"
    drivers.mkdir(parents=True)
    (drivers / "librxe-rdmav59.so").touch()
    check_drivers(hosts)


def test_only_root_can_enter_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unsupported, match="node mon: ceph:reef needs root, or --backend docker"):
        check_images([HostWish("mon", PUBLIC, image="ceph:reef")])


def test_a_variable_names_another_place_for_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path))
    assert images_root() == tmp_path
    monkeypatch.delenv(IMAGES_VARIABLE)
    assert images_root() == default_root()
