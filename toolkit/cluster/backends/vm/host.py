"""A host in the guest of a cluster."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from messenger.compat import override
from toolkit.cluster.backends.base import Host
from toolkit.cluster.backends.vm.guest import Guest
from toolkit.cluster.backends.vm.program import GuestProgram
from toolkit.errors import Unsupported
from toolkit.machine.private import DIRECTORY_MODE

T = TypeVar("T")


class GuestHost(Host):
    """A host in the guest, where one node runs.

    Args:
        name: name of the node.
        guest: the guest.
        about: addresses, directory and options, as the agent reports them.
        logs: directory of this machine for copies of its files.
    """

    keeps_logs_here = False

    def __init__(self, name: str, guest: Guest, about: Mapping[str, Any], logs: Path) -> None:
        self.name = name
        self.addresses = dict(about["addresses"])
        self.directory = Path(about["directory"])
        self.options.update(about["options"])
        self.clock_ahead_s = guest.clock_ahead_s
        self._guest = guest
        self._logs = logs
        logs.mkdir(mode=DIRECTORY_MODE, exist_ok=True)

    @override
    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> GuestProgram:
        return self._guest.start(self.name, argv, variables=self.variables, piped=piped, log=log)

    @override
    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        return str(self._guest.call("run", host=self.name, argv=argv, stdin=stdin, timeout_s=timeout_s))

    @override
    def interactive(self, argv: Sequence[str]) -> int:
        raise Unsupported(self._unreachable())

    @override
    def entering(self, argv: Sequence[str]) -> list[str]:
        raise Unsupported(self._unreachable())

    @override
    def inside(self, what: Callable[[], T]) -> T:
        raise Unsupported(self._unreachable())

    def _unreachable(self) -> str:
        return f"node {self.name}: its host is in a virtual machine, which programs of this machine cannot enter"

    @override
    def write(self, name: str, content: bytes) -> Path:
        return Path(self._guest.call("write", host=self.name, name=name, content=b64encode(content).decode()))

    @override
    def read(self, name: str) -> bytes:
        return b64decode(self._guest.call("read", host=self.name, name=name))

    @override
    def fetch(self, name: str) -> None:
        (self._logs / name).write_bytes(self.read(name))

    @override
    def port(self, wanted: int, address: str = "") -> int:
        return int(self._guest.call("port", host=self.name, wanted=wanted, address=address))
