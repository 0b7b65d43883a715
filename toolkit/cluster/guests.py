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
    """Makes virtual machines known to a cluster, so that faults of the network can name them; from any thread."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._present: dict[str, Guest] = {}

    @contextmanager
    def attached(self, guest: Guest) -> Iterator[None]:
        """Know a virtual machine, whose port is at the switch, for the duration of a ``with`` block.

        At its end, faults that name the machine are reverted.

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
                # not if another one has the name by now: the port, which a name belongs to, ends first
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
            return  # its network goes, and the faults with it
        self._write(f"detach {guest.name}")
        for problem in cluster.scene.leave(guest.name):
            cluster.backend.report(f"{guest.name}: {problem}")
        cluster.backend.unplug_guest(guest.name)

    def __contains__(self, name: object) -> bool:
        return name in self._present

    def status(self) -> dict[str, dict[str, str]]:
        """Return network and address of each, by name, as JSON."""
        return {
            name: {"network": guest.network, "address": guest.address}
            for name, guest in self._present.copy().items()
        }

    def _write(self, args: str) -> None:
        self._cluster.history.append(self._cluster.now(), SCENARIO, "step", verb="guest", args=args)
