"""Docker images of Ceph releases: the official image if a registry answers, else made of Debian's packages."""

import io
import tarfile
from pathlib import Path

from toolkit.cluster.images import debian, docker
from toolkit.cluster.images.archive import Archive
from toolkit.cluster.images.work import Report, Work, alone, silent
from toolkit.machine.cache import default_root
from toolkit.machine.docker_engine import connected

REPOSITORY = "msgrlab/ceph"
VERSION_LABEL = "msgrlab.version"
BASE_LABEL = "msgrlab.base"
"""Key of the label that names the official image, by its digest."""


def tag(release: str) -> str:
    """Return the tag of a release's image.

    Raises:
        LocalError: there is no such release.
    """
    return f"{REPOSITORY}:{debian.image(release).name}"


def build(
    release: str,
    place: str = "",
    root: Path | None = None,
    announce: Report = print,
    report: Report = silent,
    archive: Archive | None = None,
) -> str:
    """Return the tag of a release's image, and build it unless the engine has it.

    Args:
        release: ``nautilus``, ``pacific``, ``reef`` or ``tentacle``.
        place: place of the engine (:mod:`toolkit.machine.docker_engine`).
        root: directory for Debian's packages and for logs.
        announce: called with one line if something has to be built.
        report: called with each step of the build.
        archive: Debian's archive; :meth:`Archive.wanted` unless given.

    Raises:
        LocalError: there is no such release, or the build fails; the message names the log.
        Unsupported: no engine answers; or no registry does, and packages need root and debootstrap.
    """
    wanted, name = debian.image(release), tag(release)
    root = root or default_root()
    with connected(place) as engine:
        if docker.has(engine, name):
            return name
        with alone(root / f"docker-ceph-{release}", announce):
            if docker.has(engine, name):
                return name
            announce(
                f"making the image {name} of {wanted.stock}, or of Debian's packages if that is not to be had"
            )
            work = Work(root / f"docker-ceph-{release}.log", report)
            if pulled := docker.fetch(place, wanted.pinned, work):
                docker.build(engine, _labelled(pulled, release, wanted.stock.rpartition(":v")[2]), name, work, {})
            else:
                directory = debian.find_or_build(release, root, announce, report, archive)
                labels = {docker.LABEL: f"ceph:{release}", VERSION_LABEL: debian.version(directory)}
                docker.import_directory(engine, directory, name, work, labels)
    return name


def _labelled(pulled: str, release: str, version: str) -> io.BytesIO:
    """Return the context of a build that adds our labels to an image."""
    labels = {docker.LABEL: f"ceph:{release}", VERSION_LABEL: version, BASE_LABEL: pulled}
    words = " ".join(f"{name}={value}" for name, value in labels.items())
    dockerfile = f"FROM {pulled}\nLABEL {words}\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        tar.addfile(entry, io.BytesIO(dockerfile.encode()))
    packed.seek(0)
    return packed
