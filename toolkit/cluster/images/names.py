"""Images by their names in ``msgrlab images``: ``node``, ``ceph:RELEASE``, and ``vm``, a kernel."""

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.cluster.images import ceph, debian, docker, kernel, node
from toolkit.cluster.images.archive import Archive
from toolkit.cluster.images.work import Report, alone, silent
from toolkit.errors import Unsupported
from toolkit.machine.cache import default_root
from toolkit.machine.docker_engine import connected
from toolkit.machine.vm import trial

if TYPE_CHECKING:
    from docker import DockerClient

CEPH_PREFIX = "ceph:"
RELEASES = tuple(debian.RELEASES)
"""Releases of Ceph, the oldest first."""
DOCKER_NAMES = (node.NAME, *(CEPH_PREFIX + release for release in RELEASES))
"""Names of Docker images."""
NAMES = (*DOCKER_NAMES, *kernel.NAMES)


@dataclass(frozen=True, slots=True)
class Found:
    """An existing image."""

    name: str
    what: str
    """Its tag in Docker, or its directory."""
    size_bytes: int
    """Its size; 0 if it was not measured."""
    version: str = ""


def check(name: str) -> str:
    """Return the name if there is such an image.

    Raises:
        LocalError: there is none.
    """
    if name not in NAMES:
        raise LocalError(f"no image {name!r}; known: {', '.join(NAMES)}")
    return name


def build(
    name: str,
    place: str = "",
    root: Path | None = None,
    announce: Report = print,
    report: Report = silent,
    archive: Archive | None = None,
) -> str:
    """Return the tag of a Docker image or the directory of a kernel; build it unless it exists."""
    if check(name) in kernel.NAMES:
        return str(kernel.find_or_build(name, root, announce, report, archive))
    if name == node.NAME:
        return node.build(place, root, announce, report, archive)
    return ceph.build(name.removeprefix(CEPH_PREFIX), place, root, announce, report, archive)


def directory(
    name: str,
    root: Path | None = None,
    announce: Report = print,
    report: Report = silent,
    archive: Archive | None = None,
) -> str:
    """Return the directory of a Ceph release or of a kernel, and build it unless it exists.

    Raises:
        LocalError: the image exists only in Docker, or cannot be built.
        Unsupported: building it needs root and debootstrap.
    """
    if check(name) == node.NAME:
        raise LocalError("the image 'node' exists only in Docker: leave out --directory")
    if name in kernel.NAMES:
        return str(kernel.find_or_build(name, root, announce, report, archive))
    return str(debian.find_or_build(name.removeprefix(CEPH_PREFIX), root, announce, report, archive))


def tag(name: str) -> str:
    """Return the tag of a Docker image, whether it exists or not."""
    return node.tag() if check(name) == node.NAME else ceph.tag(name.removeprefix(CEPH_PREFIX))


def require(name: str, engine: "DockerClient") -> None:
    """Check that an engine has an image; for ``node``, of this source or another.

    Raises:
        Unsupported: it does not; the message names the command that builds it.
    """
    there = node.exists(engine) if check(name) == node.NAME else docker.has(engine, tag(name))
    if not there:
        repository = node.REPOSITORY if name == node.NAME else tag(name)
        raise Unsupported(f"Docker has no image {repository}: msgrlab images build {name}")


def in_docker(place: str = "") -> list[Found]:
    """Return the images that an engine has.

    Raises:
        Unsupported: no engine answers.
    """
    with connected(place) as engine:
        return [
            Found(labels[docker.LABEL], image_tag, image["Size"], labels.get(ceph.VERSION_LABEL, ""))
            for image in engine.api.images(filters={"label": docker.LABEL})
            for labels in [image["Labels"]]
            for image_tag in image["RepoTags"] or ()
            if image_tag.startswith("msgrlab/")
        ]


def directories(root: Path | None = None) -> list[Found]:
    """Return the images that exist as directories."""
    kept = {CEPH_PREFIX + release: debian.ceph_directory(release, root) for release in debian.RELEASES}
    found = [
        Found(name, str(directory), 0, debian.version(directory))
        for name, directory in kept.items()
        if debian.is_ready(directory)
    ]
    kernels = {name: kernel.directory(name, root) for name in kernel.NAMES}
    return found + [
        Found(name, str(directory), 0, kernel.release(directory))
        for name, directory in kernels.items()
        if kernel.is_ready(directory)
    ]


def remove(name: str, place: str = "", root: Path | None = None, announce: Report = print) -> list[str]:
    """Remove an image from Docker and its parts from this machine; returns what was removed.

    Raises:
        LocalError: there is no such image, or containers use it.
        Unsupported: no engine answers; the parts on this machine have been removed nevertheless.
    """
    check(name)
    root = root or default_root()
    removed: list[str] = []
    with ExitStack() as later:
        if name not in kernel.NAMES:  # after the directories, which are removed even if the engine does not answer
            later.callback(lambda: removed.extend(_remove_from_docker(name, place)))
        for directory in _parts(name, root):
            with alone(directory, announce):
                shutil.rmtree(directory)
                removed.append(str(directory))
        if name in kernel.NAMES:
            trial.answer_file(kernel.directory(name, root)).unlink(missing_ok=True)
    return removed


def _parts(name: str, root: Path) -> list[Path]:
    if name == node.NAME:
        return [*root.glob("wheels-*"), *root.glob("python-*[0-9]")]
    if name in kernel.NAMES:
        directory = kernel.directory(name, root)
    else:
        directory = debian.ceph_directory(name.removeprefix(CEPH_PREFIX), root)
    return [directory] if directory.exists() else []


def _remove_from_docker(name: str, place: str) -> list[str]:
    with connected(place) as engine:
        labelled = {"label": f"{docker.LABEL}={name}"}
        tags = [found for image in engine.api.images(filters=labelled) for found in image["RepoTags"] or ()]
        for image_tag in (ours := [found for found in tags if found.startswith("msgrlab/")]):
            engine.api.remove_image(image_tag)
        engine.api.prune_images({**labelled, "dangling": True})
    return ours
