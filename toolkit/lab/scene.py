"""Adapters between the fault language and a lab: its nodes, its proxies, and the records of its faults."""

# ruff: noqa: SLF001 - a part of the lab
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from messenger.compat import override
from toolkit.faults.dials import forget, release
from toolkit.faults.language.fault import Fault
from toolkit.faults.language.scene import MESSENGER, Scene, Write
from toolkit.node.raw.stream import PATIENCE_S

if TYPE_CHECKING:
    from toolkit.lab.verbs.faults import FaultVerbs
    from toolkit.lab.verbs.nodes import NodeVerbs
    from toolkit.network.state import LinkState


class LabNode:
    """A node of a lab, running or not; :class:`toolkit.faults.language.scene.NodeHere` documents its methods."""

    kind = MESSENGER
    keeps_devices = False

    def __init__(self, lab: "NodeVerbs", name: str) -> None:
        self._lab = lab
        self.name = name

    @property
    def alive(self) -> bool:
        """True if its process runs."""
        return self._lab._running(self.name)

    @property
    def pid(self) -> int:
        """The id of its process on this machine; 0 if it has no process of its own."""
        return self._lab._pid(self.name)

    @property
    def address(self) -> str:
        """The address at which it listens."""
        return self._lab.address(self.name)

    def ready(self) -> bool:
        """True if its process runs and answers commands."""
        return self.alive

    def kill(self) -> None:
        """End its process without warning."""
        self._lab._end(self.name)

    def stop(self) -> None:
        """Shut its messenger down gracefully, wait for that, and end its process."""
        self._lab._command(self.name, "stop", graceful=True)
        self._lab._wait_until(lambda: self.name in self._lab._stopped, PATIENCE_S)
        self._lab._end(self.name)

    def freeze(self, frozen: bool) -> None:  # noqa: FBT001 - as RunningNode has it
        """Stop its process, or continue it."""
        self._lab._freeze(self.name, frozen=frozen)

    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:  # noqa: ARG002 - it stores nothing
        """Start it again, after ending it if it runs."""
        if self.alive:
            self._lab._end(self.name)
        self._lab._revive(self.name, "moved", new_nonce=new_nonce)

    def command(self, verb: str, **args: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Have it carry out a command; returns its answer."""
        return self._lab._command(self.name, verb, **args)


class LabProxy:
    """The fault proxy between two nodes of a lab; every backend has one between each pair."""

    def __init__(self, lab: "NodeVerbs", a: str, b: str) -> None:
        self._parties = a, b
        self._strikes = lab.breakpoints_between(a, b)

    def add_rule(self, rule: str, write: Write) -> Callable[[], None]:  # noqa: ARG002
        """Add a rule of a script; returns the function that removes it. The lab records its actions."""
        from toolkit.faults.script import strikes  # noqa: PLC0415 - only for labs with rules

        added = strikes(rule, *self._parties)
        self._strikes += added
        return partial(forget, self._strikes, added)

    def release(self, name: str) -> int:
        """Release everything held under ``name``; returns the number of frames and dials released."""
        return release(self._strikes, name)


class LabScene(Scene):
    """The faults of a lab, both those of the fault language and those of verbs."""

    def __init__(self, lab: "FaultVerbs") -> None:
        super().__init__(lab, lab._now)
        self._lab = lab
        self._is_verb = False

    @contextmanager
    def by_verb(self) -> Iterator[None]:
        """Let verbs carry out faults inside this context.

        They write their own records, and only ``heal`` undoes them.
        """
        self._is_verb, before = True, self._is_verb
        try:
            yield
        finally:
            self._is_verb = before

    @override
    def write(self, node: str, kind: str, /, **fields: Any) -> None:
        if not self._is_verb:
            self._lab._write(node, kind, **fields)

    @override
    def block(self, sender: str, receiver: str, port: int = 0) -> None:
        if self._is_verb:
            self.network.block(sender, receiver, port=port)
        else:
            super().block(sender, receiver, port)

    @override
    def set_link(self, fault: Fault, sender: str, receiver: str, state: "LinkState") -> None:
        if self._is_verb:
            self.network.set_link(sender, receiver, state)
        else:
            super().set_link(fault, sender, receiver, state)
