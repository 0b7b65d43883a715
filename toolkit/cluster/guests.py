"""The virtual machines on the networks of a cluster, while it is up."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from toolkit.checks.history import SCENARIO
from toolkit.network.places import Guest

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster

_UP = "up"


class Guests:
    """Registers virtual machines, so that faults of the network can name them; from any thread."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._present: dict[str, Guest] = {}

    @contextmanager
    def attached(self, guest: Guest) -> Iterator[None]:
        """Register a virtual machine that has a port at the switch, for the duration of a ``with`` block.

        At the end of the block, faults that name the machine are reverted. A machine that is registered under the
        same name before is removed: its port must have vanished, since the kernel has one port of each name.

        Raises:
            Unsupported: the cluster's backend has no switch on this machine.
            LocalError: a node has that name, there is no such network, or the cluster is going down.
        """
        with self._lock:
            self._attach(guest)
        try:
            yield
        finally:
            with self._lock:
                if self._present.get(guest.name) is guest:
                    self._detach(guest)

    def _attach(self, guest: Guest) -> None:
        cluster = self._cluster
        if cluster.stage != _UP:
            raise LocalError(f"{guest.name}: cluster {cluster.name!r} is going down")
        if guest.name in cluster.nodes:
            raise LocalError(f"{guest.name}: cluster {cluster.name!r} has a node of that name")
        if guest.name in self._present:
            self._detach(self._present[guest.name])
        try:
            cluster.backend.plug_guest(guest)
        except LocalError:
            cluster.backend.unplug_guest(guest.name)
            raise
        self._present[guest.name] = guest
        self._write(f"attach {guest.name}")

    def _detach(self, guest: Guest) -> None:
        cluster = self._cluster
        del self._present[guest.name]
        if cluster.stage != _UP:
            return  # the network is being removed, with its faults
        self._write(f"detach {guest.name}")
        with cluster.scene.leaving(guest.name) as problems:
            for problem in problems:
                cluster.backend.report(f"{guest.name}: {problem}")
            cluster.backend.unplug_guest(guest.name)

    def __contains__(self, name: object) -> bool:
        return name in self._present

    def status(self) -> dict[str, dict[str, str]]:
        """Return the network and the address of each machine, by name, as JSON."""
        return {
            name: {"network": guest.network, "address": guest.address}
            for name, guest in self._present.copy().items()
        }

    def _write(self, args: str) -> None:
        self._cluster.history.append(self._cluster.now(), SCENARIO, "step", verb="guest", args=args)
