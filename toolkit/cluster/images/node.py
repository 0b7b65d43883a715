"""The image of msgrlab's node: Python, the wheels that the messenger needs, and the running source.

pip fetches the wheels on this machine, in the versions and with the hashes that are locked beside the Dockerfile
(docs/supply-chain.md); they are installed in the image without network access. The image's tag is a hash of its
content, so a changed source gives a new image, which takes about a second to build.
"""

import hashlib
import io
import platform
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.cluster.images import debian, docker
from toolkit.cluster.images.archive import Archive
from toolkit.cluster.images.work import Report, Work, alone, silent, whole
from toolkit.machine.cache import default_root
from toolkit.machine.docker_engine import connected
from toolkit.machine.interpreters import PACKAGES, PYTHON

if TYPE_CHECKING:
    from docker import DockerClient

NAME = "node"
REPOSITORY = "msgrlab/node"
_SOURCE = PACKAGES
_PACKAGES = ("messenger", "toolkit")
_BASES = "msgrlab/python"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Python's names of an engine's architectures."""
_MANYLINUX = ("2_34", "2_28", "2_17")
"""Versions of the C library that every base supports, in wheel tags."""
_LOCKS = ("requirements.txt", "pip.txt")
"""Requirements of a node, and of pip, which installs them; our other dependencies are not in the image."""
_RECIPE = ("Dockerfile", "msgrlab", *_LOCKS)
_KEPT = 3
"""Number of images of earlier sources to keep."""
_HASH_DIGITS = 12


@cache
def tag() -> str:
    """Return the tag of the image of this source."""
    content = hashlib.sha256()
    for name, path in sorted(_content()):
        content.update(f"{name}\0{path.stat().st_size}\0".encode())
        content.update(path.read_bytes())
    return f"{REPOSITORY}:{content.hexdigest()[:_HASH_DIGITS]}"


def build(
    place: str = "",
    root: Path | None = None,
    announce: Report = print,
    report: Report = silent,
    archive: Archive | None = None,
) -> str:
    """Return the tag of this source's image, and build it unless the engine has it.

    Args:
        place: place of the engine (:mod:`toolkit.machine.docker_engine`).
        root: directory for parts and logs; :func:`toolkit.cluster.images.default_root` unless given.
        announce: called with one line if something has to be built.
        report: called with each step of the build.
        archive: Debian's archive, for a base image; :meth:`Archive.wanted` unless given.

    Raises:
        LocalError: the build fails; the message names the log.
        Unsupported: no engine answers, or no base image is available.
    """
    root = root or default_root()
    with connected(place) as engine:
        if docker.has(engine, tag()):
            return tag()
        with alone(root / "docker-node", announce):
            if not docker.has(engine, tag()):
                announce(f"making the image {tag()}: pip fetches wheels that are not there yet")
                work = Work(root / "docker-node.log", report)
                base, python = _base(engine, place, root, announce, work, archive)
                wheels = _wheelhouse(python, str(engine.version()["Arch"]), root, work)
                docker.build(engine, _context(wheels), tag(), work, {"BASE": base})
                _forget_old(engine)
    return tag()


def exists(engine: "DockerClient") -> bool:
    """True if the engine has a node image, of this source or another."""
    return bool(engine.api.images(name=REPOSITORY))


def _base(
    engine: "DockerClient", place: str, root: Path, announce: Report, work: Work, archive: Archive | None
) -> tuple[str, str]:
    """Return an image with Python and its version: the official image for the running version, or Debian's."""
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in dict.fromkeys((wanted, debian.PYTHON_VERSION)):
        if docker.has(engine, base := f"{_BASES}:{python}"):
            return base, python
    stock = f"docker.io/library/python:{wanted}-slim"
    if pulled := docker.fetch(place, stock, work):
        engine.api.tag(pulled, _BASES, wanted)
        return f"{_BASES}:{wanted}", wanted
    if _MACHINES.get(engine.version()["Arch"]) != platform.machine():
        raise work.failed(f"no registry to fetch {stock} from, and the engine is of another architecture")
    directory = debian.python_base(root, announce, work.report, archive)
    base = f"{_BASES}:{debian.PYTHON_VERSION}"
    docker.import_directory(engine, directory, base, work, {docker.LABEL: NAME})
    return base, debian.PYTHON_VERSION


def _wheelhouse(python: str, architecture: str, root: Path, work: Work) -> Path:
    """Return a directory with the locked wheels for a Python version, and pip's own."""
    machine = _MACHINES.get(architecture, architecture)
    locks = [_recipe() / name for name in _LOCKS]
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:_HASH_DIGITS]
    directory = root / f"wheels-{python}-{machine}-{digest}"
    if not directory.exists():
        with whole(directory) as unfinished:
            work.run(
                *PYTHON, "-m", "pip", "download", "--only-binary=:all:", "--require-hashes", "--no-deps",
                f"--python-version={python}",
                *(f"--platform=manylinux_{version}_{machine}" for version in _MANYLINUX),
                f"--platform=manylinux2014_{machine}", f"--dest={unfinished}",
                *(f"--requirement={lock}" for lock in locks),
            )  # fmt: skip
    return directory


def _recipe() -> Path:
    """Return the directory of the Dockerfile, in a checkout or in the installed package."""
    for clusters in (_SOURCE / "clusters", _SOURCE / "toolkit/cluster/ready"):
        if (clusters / "images/node/Dockerfile").exists():
            return clusters / "images/node"
    raise LocalError(f"clusters/images/node is not in {_SOURCE}: msgrlab is not installed completely")


def _content() -> Iterator[tuple[str, Path]]:
    """Yield names in the build context and their files, without the wheels."""
    for name in _RECIPE:
        yield name, _recipe() / name
    for package in _PACKAGES:
        for path in (_SOURCE / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"source/{path.relative_to(_SOURCE)}", path


def _context(wheels: Path) -> io.BytesIO:
    """Return the build context; it is reproducible, so that the engine's build cache works."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path in sorted([*_content(), *((f"wheels/{path.name}", path) for path in wheels.iterdir())]):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o755 if name == "msgrlab" else 0o644
            tar.addfile(entry, io.BytesIO(path.read_bytes()))
    packed.seek(0)
    return packed


def _forget_old(engine: "DockerClient") -> None:
    """Remove images of earlier sources, except the last few and those in use."""
    import docker.errors

    images = sorted(engine.api.images(name=REPOSITORY), key=lambda image: int(image["Created"]), reverse=True)
    for image in images[_KEPT + 1 :]:
        for old in image["RepoTags"] or ():
            try:
                engine.api.remove_image(old)
            except docker.errors.APIError:
                continue
