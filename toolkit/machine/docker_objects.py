"""Docker objects with a label."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.machine.docker_engine import connected

if TYPE_CHECKING:
    import docker

_AT_ONCE = 16
_GO_TIMEOUT_S = 10.0
_POLL_S = 0.02
_PASSING = ("already in progress", "active endpoints", "in use by", "not found", "no such")
"""Parts of the engine's messages about objects that are still in use, are being removed, or are gone."""


def labelled(label: str, base_url: str = "") -> list[str]:
    """Return a line for each service, container, network and volume with a label.

    Args:
        label: the label, ``KEY=VALUE``.
        base_url: place of the engine (:mod:`toolkit.machine.docker_engine`).

    Raises:
        LocalError: Docker does not answer.
    """
    mine = {"label": label}
    with connected(base_url) as engine:
        return [
            *(f"service {service.name}" for service in _services(engine, mine)),
            *(f"container {each['Names'][0][1:]}" for each in engine.api.containers(all=True, filters=mine)),
            *(f"network {each['Name']}" for each in engine.api.networks(filters=mine)),
            *(f"volume {volume.name}" for volume in engine.volumes.list(filters=mine)),
        ]


def remove_labelled(label: str, base_url: str = "") -> None:
    """Remove all services, containers, networks and volumes with a label.

    Args:
        label: the label, ``KEY=VALUE``.
        base_url: place of the engine (:mod:`toolkit.machine.docker_engine`).

    Raises:
        LocalError: Docker does not answer, or an object cannot be removed.
    """
    with connected(base_url) as engine:
        remove_from(engine, label)


def remove_from(engine: "docker.DockerClient", label: str, *, timeout_s: float = _GO_TIMEOUT_S) -> None:
    """Remove all objects with a label from an engine.

    Only a manager of a swarm can remove an overlay network, which leaves other machines with their last container.

    Args:
        engine: the engine.
        label: the label, ``KEY=VALUE``.
        timeout_s: time limit for the containers, and for the networks.

    Raises:
        LocalError: some still exist after the time limit.
        docker.errors.APIError: the engine rejected a request.
    """
    api, mine = engine.api, {"label": label}
    for service in _services(engine, mine):
        _remove(service.remove)
    remove = partial(api.remove_container, force=True, v=True)
    _remove_all(partial(api.containers, all=True, filters=mine), remove, timeout_s)
    own = mine if _manages(engine) else {**mine, "scope": "local"}
    _remove_all(partial(api.networks, filters=own), api.remove_network, timeout_s)
    for volume in engine.volumes.list(filters=mine):
        _remove(partial(volume.remove, force=True))


def _services(engine: "docker.DockerClient", mine: dict[str, str]) -> list[Any]:
    """Return the services with a label; only a swarm manager can list them."""
    return list(engine.services.list(filters=mine)) if _manages(engine) else []


def _manages(engine: "docker.DockerClient") -> bool:
    return bool(engine.info().get("Swarm", {}).get("ControlAvailable"))


def _remove_all(
    look: Callable[[], list[dict[str, Any]]], remove: Callable[[str], object], timeout_s: float
) -> None:
    """Remove objects in parallel, since each takes a while, until none is listed."""
    deadline_s = time.monotonic() + timeout_s
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while found := _ids(look):
            if time.monotonic() > deadline_s:
                raise LocalError(f"Docker still has {', '.join(found)} after {timeout_s:g} s")
            list(pool.map(lambda each: _remove(partial(remove, each)), found))
            time.sleep(_POLL_S)


def _ids(look: Callable[[], list[dict[str, Any]]]) -> list[str]:
    """Return the ids of the listed objects; retries, because a listing fails if a network vanishes meanwhile."""
    import docker.errors

    deadline_s = time.monotonic() + _GO_TIMEOUT_S
    while True:
        try:
            return [each["Id"] for each in look()]
        except docker.errors.APIError as error:
            if not _passes(error) or time.monotonic() > deadline_s:
                raise
        time.sleep(_POLL_S)


def _remove(remove: Callable[[], object]) -> None:
    """Remove an object; ignore errors that mean it is in use for now, or gone."""
    import docker.errors

    try:
        remove()
    except docker.errors.APIError as error:
        if not _passes(error):
            raise


def _passes(error: "docker.errors.APIError") -> bool:
    """True if the engine's error is temporary, or means that the object is gone."""
    return any(words in str(error.explanation).lower() for words in _PASSING)
