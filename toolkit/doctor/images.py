"""Probes of images: root file systems with a release of Ceph, and Docker images."""

import os
import shutil
from dataclasses import replace

from messenger.errors import LocalError
from toolkit.cluster.chroot import images_root
from toolkit.cluster.images import RELEASES, version
from toolkit.cluster.images.archive import Archive
from toolkit.cluster.images.names import DOCKER_NAMES, tag
from toolkit.cluster.images.node import NAME, REPOSITORY
from toolkit.machine import vm
from toolkit.machine.capability import Finding, not_installed, own_command
from toolkit.machine.programs import docker, run, with_engine
from toolkit.machine.vm.kernels import USER_MODE

__all__ = ["RELEASES", "ceph_image", "docker_images", "kernel_image", "user_mode_linux"]


def ceph_image(release: str) -> Finding:
    """Check for the directory with a release of Ceph, and for root, which is needed to run programs in it."""
    directory = images_root() / f"ceph-{release}"
    if os.geteuid() != 0:
        return Finding(available=False, detail="only root can run programs of an image")
    try:
        found = version(directory)
    except OSError:
        command = f"{own_command()} images build ceph:{release} --directory"
        return _to_be_made(f"no image in {directory}", command)
    return Finding(available=True, detail=f"{found} in {directory}")


def docker_images() -> Finding:
    """Check whether the Docker engine has the node image and an image of each release of Ceph."""
    engine = docker()
    if not engine.available:
        return with_engine(engine, f"{own_command()} images build {' '.join(DOCKER_NAMES)}")
    there = run("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}").stdout.splitlines()
    repositories = {each.rpartition(":")[0] for each in there}
    missing = [
        name
        for name in DOCKER_NAMES
        if (REPOSITORY not in repositories if name == NAME else tag(name) not in there)
    ]
    if missing:
        return _to_be_made(f"no {', '.join(missing)}", f"{own_command()} images build {' '.join(missing)}")
    return Finding(available=True, detail=", ".join(DOCKER_NAMES))


def kernel_image() -> Finding:
    """Check for the requirements of virtual machines: QEMU, and a kernel image.

    The detail has the kernel that scenarios try first, too, if it is another one.
    """
    finding = vm.probe()
    if finding.available and (first := vm.fastest_first()[0]) != vm.find():
        return replace(finding, detail=f"{finding.detail}; scenarios try {vm.probe(first.name).detail}")
    return _downloaded(finding)


def user_mode_linux() -> Finding:
    """Check for the image of user-mode Linux, and whether it boots here."""
    return _downloaded(vm.probe(USER_MODE))


def _downloaded(finding: Finding) -> Finding:
    """Add what the download of a kernel needs to a finding."""
    if finding.available or not finding.commands:
        return finding
    if shutil.which("apt-get") is None:
        return Finding(available=False, detail=f"{finding.detail}; no apt-get here to download Debian's kernel")
    return replace(finding, packages=(*finding.packages, *_keys()))


def _to_be_made(detail: str, command: str) -> Finding:
    """Return the finding for a missing image that ``command`` builds, with the Debian packages that it needs."""
    packages = [] if shutil.which("debootstrap") or os.geteuid() else ["debootstrap"]
    packages += _keys()
    if packages:
        return not_installed(detail, tuple(packages), command)
    return Finding(available=False, detail=detail, commands=(command,))


def _keys() -> tuple[str, ...]:
    """Return the package with the keys that verify Debian's packages; empty if the keys are installed."""
    try:
        Archive.wanted().keys()
    except LocalError:
        return ("debian-archive-keyring",)
    return ()
