"""Backends run the nodes of a cluster: as processes, in network namespaces, in containers, or in a micro-VM."""

from importlib import import_module
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.errors import Unsupported

if TYPE_CHECKING:
    from toolkit.cluster.backends.base import Backend

BACKENDS = {
    "process": "toolkit.cluster.backends.process:ProcessBackend",
    "netns": "toolkit.cluster.backends.netns:NetnsBackend",
    "docker": "toolkit.cluster.backends.docker.backend:DockerBackend",
    "swarm": "toolkit.cluster.backends.docker.swarm:SwarmBackend",
    "vm": "toolkit.cluster.backends.vm.backend:VmBackend",
}
"""Module and class, imported on demand."""
_OVER_RDMA = {
    "process": "toolkit.cluster.backends.rdma:RdmaBackend",
    "vm": "toolkit.cluster.backends.vm.backend:RdmaVmBackend",
}


def backend_named(name: str, transport: str = "tcp") -> "type[Backend]":
    """Return the backend class of that name.

    Args:
        name: name of the backend.
        transport: transport of the messengers' links, as in a spec.

    Raises:
        LocalError: there is none of that name.
        Unsupported: it does not support that transport.
    """
    if name not in BACKENDS:
        raise LocalError(f"unknown backend {name!r}; known: {', '.join(BACKENDS)}")
    known = _OVER_RDMA if transport == "rdma" else BACKENDS
    if name not in known:
        raise Unsupported(f"transport {transport}: nodes on {name} have no such devices: --backend process or vm")
    module, _, kind = known[name].partition(":")
    found: type[Backend] = getattr(import_module(module), kind)
    return found
