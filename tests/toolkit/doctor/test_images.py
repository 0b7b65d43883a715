from pathlib import Path

import pytest

from toolkit.cluster.images.names import DOCKER_NAMES
from toolkit.doctor import images
from toolkit.machine import capability, programs
from toolkit.machine.capability import Finding

ENGINE = Finding(available=True, detail="engine 28.2.2")
KEYS = "debian-archive-keyring"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this user root on Debian, with an empty PATH and no images."""
    monkeypatch.setenv("MSGRLAB_IMAGES", str(tmp_path / "images"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(images.os, "geteuid", lambda: 0)
    monkeypatch.setattr(capability, "own_command", lambda: "msgrlab")
    monkeypatch.setattr(images, "own_command", lambda: "msgrlab")
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    return tmp_path


def install(root: Path, name: str, script: str = "") -> None:
    (root / name).write_text(f"#!/bin/sh\n{script}\n")
    (root / name).chmod(0o755)


def test_a_directory_is_made_with_debootstrap(root: Path) -> None:
    finding = images.ceph_image("reef")
    assert "debootstrap" in finding.packages
    assert finding.commands == ("msgrlab images build ceph:reef --directory",)
    install(root, "debootstrap")
    assert "debootstrap" not in images.ceph_image("reef").packages
    made = root / "images" / "ceph-reef" / "etc"
    made.mkdir(parents=True)
    (made / "msgrlab-image").write_text("18.2.7\n")
    assert images.ceph_image("reef").detail.startswith("18.2.7 in ")


def test_the_keys_of_the_archive_are_a_package(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSGRLAB_KEYRING", str(root / "apt-get"))
    assert KEYS not in images.ceph_image("reef").packages
    monkeypatch.setenv("MSGRLAB_KEYRING", str(root / "none"))
    assert KEYS in images.ceph_image("reef").packages


def test_images_in_docker_come_after_the_engine(root: Path) -> None:
    missing = images.docker_images()
    assert missing.packages == ("docker.io", "iptables")
    start, build = missing.commands
    assert "docker" in start
    assert build == f"msgrlab images build {' '.join(DOCKER_NAMES)}"


def test_only_images_that_the_engine_lacks_are_built(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "docker", lambda: ENGINE)
    install(root, "docker", "echo msgrlab/node:0123; echo msgrlab/ceph:reef")
    finding = images.docker_images()
    assert finding.detail == "no ceph:nautilus, ceph:pacific, ceph:tentacle"
    assert finding.commands == ("msgrlab images build ceph:nautilus ceph:pacific ceph:tentacle",)
    everything = "".join(f"echo msgrlab/ceph:{release};" for release in images.RELEASES)
    install(root, "docker", f"echo msgrlab/node:0123; {everything}")
    assert images.docker_images().available


def test_images_without_a_docker_engine_have_no_remedy(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Finding(available=False, detail="the docker engine does not answer")
    monkeypatch.setattr(images, "docker", lambda: silent)
    assert images.docker_images() == programs.with_engine(silent, "x") == silent


def test_kernel_image_needs_qemu_and_a_kernel(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    finding = images.kernel_image()
    assert "qemu-system-x86" in finding.packages
    assert finding.commands[-1].endswith("images build vm")
    install(root, "qemu-system-x86_64", "echo QEMU emulator version 7.2.22")
    install(root, "modprobe")
    install(root, "setpriv")
    finding = images.kernel_image()
    assert finding.detail == f"no kernel in {root}/images/vm-bookworm"
    assert "qemu-system-x86" not in finding.packages
    made = root / "images" / "vm-bookworm"
    made.mkdir(parents=True)
    (made / "release").write_text("6.1.0-50-amd64\n")
    finding = images.kernel_image()
    assert finding.available
    assert finding.detail.startswith("QEMU 7.2.22, Linux 6.1.0-50-amd64, ")
