"""A cluster that only writes down what is done to it."""

import time
from collections.abc import Callable
from typing import Any

from messenger.errors import LocalError
from toolkit.checks.history import History
from toolkit.faults.language import Scene, parse
from toolkit.faults.language.scene import Write
from toolkit.faults.proxy import FaultProxy
from toolkit.network.faults import NetworkFaults
from toolkit.network.state import LinkState


class RecordedNode:
    def __init__(self, cluster: "RecordedCluster", name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.keeps_devices = False
        self.alive = True
        self.pid = 0
        self.failing_starts = 0
        self.address = f"v2:10.0.0.1:6800/{name}"
        self._cluster = cluster

    def ready(self) -> bool:
        return self.alive

    def kill(self) -> None:
        self.alive = False
        self._cluster.called("kill", self.name)

    def stop(self) -> None:
        self.alive = False
        self._cluster.called("stop", self.name)

    def freeze(self, frozen: bool) -> None:  # noqa: FBT001 - as RunningNode has it
        self._cluster.called("freeze" if frozen else "thaw", self.name)

    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:
        if self.failing_starts:
            self.failing_starts -= 1
            raise LocalError(f"{self.name} did not come up")
        self.alive = True
        self._cluster.called("restart", self.name, *["new_nonce"] * new_nonce, *["wiped"] * wiped)

    def command(self, verb: str, **args: Any) -> dict[str, Any]:
        self._cluster.called("command", self.name, verb, *args.values())
        return self._cluster.answers.get(verb, {})


class RecordedNetwork(NetworkFaults):
    has_rdma = True

    def __init__(self, called: Callable[..., None]) -> None:
        self._called = called
        self.states: dict[tuple[str, str], LinkState] = {}

    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        self.states[sender, receiver] = state
        self._called("set_link", sender, receiver, str(state))

    def link(self, sender: str, receiver: str) -> LinkState:
        return self.states.get((sender, receiver), LinkState())

    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._called("block", sender, receiver, *[port] * bool(port))

    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._called("unblock", sender, receiver, *[port] * bool(port))

    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        self._called("refuse" if refused else "accept", sender, receiver, *[port] * bool(port))

    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        self._called("black_hole", sender, receiver, mtu_bytes)

    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        self._called("nat" if translated else "no_nat", sender, receiver)

    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        self._called("nat_flush", sender, receiver, *["silent"] * silent)
        return 1

    def set_rdma_port(self, name: str, *, is_up: bool) -> None:
        self._called("rdma_up" if is_up else "rdma_down", name)

    def remove_rdma_device(self, name: str) -> bool:
        self._called("rdma_remove", name)
        return True

    def restore_rdma_device(self, name: str) -> None:
        self._called("rdma_add", name)

    def change_rdma_address(self, name: str) -> None:
        self._called("gid_change", name)

    def reset(self, a: str, b: str) -> int:
        self._called("reset", a, b)
        return 2

    def finish(self, sender: str, receiver: str) -> int:
        self._called("finish", sender, receiver)
        return 1

    def heal(self) -> None:
        self._called("heal")


class RecordedProxy:
    def __init__(self, called: Callable[..., None]) -> None:
        self._called = called

    def add_rule(self, rule: str, write: Write) -> Callable[[], None]:
        self._called("add_rule", rule)
        return lambda: self._called("remove_rule", rule)

    def release(self, name: str) -> int:
        self._called("release", name)
        return 1


class RecordedCluster:
    """Nodes a, b and c of ours, and an OSD d; a proxy between a and b."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self.history = History()
        self.nodes = {name: RecordedNode(self, name, "osd" if name == "d" else "messenger") for name in "abcd"}
        self.network = RecordedNetwork(self.called)
        self.proxies = {("a", "b"): RecordedProxy(self.called)}
        self._began_s = time.monotonic()
        self.scene = Scene(self, self.now)

    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> list[FaultProxy]:
        return []

    def called(self, *what: object) -> None:
        self.calls.append(what)

    def now(self) -> float:
        return time.monotonic() - self._began_s

    def do(self, text: str) -> list[tuple[object, ...]]:
        """Do a fault; returns the calls that came of it."""
        before = len(self.calls)
        self.scene.do(parse(text))
        return self.calls[before:]

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        return [record.fields for record in self.history if record.kind == kind]
