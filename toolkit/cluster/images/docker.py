"""Images of a Docker engine: find, build, pull and import them."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from toolkit.cluster.images.work import Work
from toolkit.machine.docker_engine import connect

if TYPE_CHECKING:
    import docker

LABEL = "msgrlab.image"
"""Key of the label on every image of msgrlab; its value is the image's name for ``msgrlab images``."""
_REGISTRY_TIMEOUT_S = 5.0
_PULL_TIMEOUT_S = 60.0
"""Seconds without progress after which a download is given up."""
_CHUNK_BYTES = 1 << 20


def has(engine: "docker.DockerClient", tag: str) -> bool:
    """True if an engine has an image."""
    import docker.errors

    try:
        engine.api.inspect_image(tag)
    except docker.errors.ImageNotFound:
        return False
    return True


def fetch(place: str, reference: str, work: Work) -> str | None:
    """Pull an image, if its registry answers within seconds and has it.

    Args:
        place: place of the engine.
        reference: name with a tag, or with a digest, which the engine verifies.
        work: logs the digest of the pulled image, or why none was pulled.

    Returns:
        The name of the image with its digest; None if it was not pulled.
    """
    import docker.errors
    import requests

    try:
        with closing(connect(place, timeout_s=_REGISTRY_TIMEOUT_S)) as engine:
            digest = engine.api.inspect_distribution(reference)["Descriptor"]["digest"]
        pulled = f"{_repository(reference)}@{digest}"
        with closing(connect(place, timeout_s=_PULL_TIMEOUT_S)) as engine:
            _follow(engine.api.pull(pulled, stream=True, decode=True), work)
    except (docker.errors.APIError, requests.exceptions.RequestException) as error:
        work.note(f"{reference} is not to be had: {getattr(error, 'explanation', None) or error}")
        return None
    work.note(f"{reference} is {pulled}")
    return pulled


def _repository(reference: str) -> str:
    """Return the reference without tag and digest; the colon of a port is not part of a tag."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def build(
    engine: "docker.DockerClient", context: IO[bytes], tag: str, work: Work, arguments: Mapping[str, str]
) -> None:
    """Build an image from a context in a tar file, without network access.

    Raises:
        LocalError: the build fails; the message names the log.
    """
    import docker.errors

    try:
        events = engine.api.build(
            fileobj=context, custom_context=True, tag=tag, buildargs=dict(arguments), rm=True, forcerm=True,
            network_mode="none", decode=True,
        )  # fmt: skip
        _follow(events, work)
    except docker.errors.APIError as error:
        raise work.failed(f"docker build of {tag}: {error.explanation or error}") from None


def import_directory(
    engine: "docker.DockerClient", directory: Path, tag: str, work: Work, labels: Mapping[str, str]
) -> None:
    """Make an image of a root file system.

    Raises:
        LocalError: it cannot be read, or the engine rejects it.
    """
    import docker.errors

    repository, _, name = tag.partition(":")
    changes = ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    changes += [f"LABEL {key}={value}" for key, value in labels.items()]
    work.note(f"importing {directory} as {tag}")
    try:
        engine.api.import_image_from_stream(
            _tar(directory, work), repository=repository, tag=name, changes=changes
        )
    except docker.errors.APIError as error:
        raise work.failed(f"docker import of {directory}: {error.explanation or error}") from None


def _tar(directory: Path, work: Work) -> Iterator[bytes]:
    """Yield a tar archive of a root file system, without /proc, /sys and /dev; raises LocalError if tar fails."""
    without = ("--exclude=./proc/*", "--exclude=./sys/*", "--exclude=./dev/*")
    command = ["tar", "--create", "--numeric-owner", *without, "--directory", str(directory), "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as packing:
        assert packing.stdout is not None
        try:
            while chunk := packing.stdout.read(_CHUNK_BYTES):
                yield chunk
        except BaseException:
            packing.kill()
            raise
    if packing.returncode:
        raise work.failed(f"tar ended with exit code {packing.returncode} in {directory}")


def _follow(events: Iterable[dict[str, Any]], work: Work) -> None:
    """Log the engine's progress.

    Raises:
        LocalError: the engine reports a failure.
    """
    for event in events:
        if "error" in event:
            raise work.failed(str(event["error"]).strip())
        text = event.get("stream") or (event.get("status", "") if "progressDetail" not in event else "")
        for line in str(text).splitlines():
            work.note(line.strip())
