"""Where the nodes of a cluster run: processes of this machine, network namespaces, containers."""

from importlib import import_module
from typing import TYPE_CHECKING

from messenger.errors import LocalError

if TYPE_CHECKING:
    from toolkit.cluster.backends.base import Backend

BACKENDS = {
    "process": "toolkit.cluster.backends.process:ProcessBackend",
    "netns": "toolkit.cluster.backends.netns:NetnsBackend",
    "docker": "toolkit.cluster.backends.docker.backend:DockerBackend",
    "swarm": "toolkit.cluster.backends.docker.swarm:SwarmBackend",
}
"""Module and class, imported on demand."""


def backend_named(name: str) -> "type[Backend]":
    """A kind of backend.

    Raises:
        LocalError: there is none of that name.
    """
    if name not in BACKENDS:
        raise LocalError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}")
    module, _, kind = BACKENDS[name].partition(":")
    found: type[Backend] = getattr(import_module(module), kind)
    return found
