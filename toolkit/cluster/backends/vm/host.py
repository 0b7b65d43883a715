"""A host in the guest of a cluster."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from messenger.compat import override
from toolkit.cluster.backends.base import CaptureWish, Host
from toolkit.cluster.backends.vm.guest import Guest
from toolkit.cluster.backends.vm.program import SLOWNESS, GuestProgram
from toolkit.errors import Unsupported
from toolkit.machine.interpreters import PYTHON
from toolkit.machine.leases import Lease
from toolkit.machine.private import DIRECTORY_MODE, write_private

if TYPE_CHECKING:
    from toolkit.capture.recorder import Taken

T = TypeVar("T")


class GuestHost(Host):
    """A host in the guest, where one node runs.

    Args:
        name: name of the node.
        guest: the guest.
        about: addresses, directory and options, as the agent reports them.
        lease: lease of the cluster.
    """

    keeps_logs_here = False
    slowness = SLOWNESS

    def __init__(self, name: str, guest: Guest, about: Mapping[str, Any], lease: Lease) -> None:
        self.name = name
        self.addresses = dict(about["addresses"])
        self.directory = Path(about["directory"])
        self.options.update(about["options"])
        self.clock_ahead_s = guest.clock_ahead_s
        self._guest = guest
        self._cluster = lease.label.name
        self._copies = lease.directory / name
        """Directory of this machine for copies of its files."""
        self._copies.mkdir(mode=DIRECTORY_MODE, exist_ok=True)

    @override
    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> GuestProgram:
        return self._guest.start(self.name, argv, variables=self.variables, piped=piped, log=log)

    @override
    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        """Run a program and return its standard output; the time limit is ten times as long."""
        how = {"argv": argv, "stdin": stdin, "variables": self.variables, "timeout_s": timeout_s * SLOWNESS}
        return str(self._guest.call("run", 2 * timeout_s * SLOWNESS, host=self.name, **how))

    @override
    def ask(self, daemon: str, command: Mapping[str, Any]) -> Any:
        return self._guest.call("ask", host=self.name, daemon=daemon, command=command)

    @override
    def interactive(self, argv: Sequence[str]) -> int:
        raise Unsupported(f"{self.name}: programs in a virtual machine have no terminal: msgrlab exec")

    @override
    def entering(self, argv: Sequence[str]) -> list[str]:
        module = "toolkit.cluster.backends.vm.terminal"
        return [*PYTHON, "-m", module, self._cluster, self.name, *self.with_variables(argv)]

    @override
    def inside(self, what: Callable[[], T]) -> T:
        raise Unsupported(f"{self.name}: its host is in a virtual machine, which this process cannot enter")

    @override
    def write(self, name: str, content: bytes) -> Path:
        return Path(self._guest.call("write", host=self.name, name=name, content=b64encode(content).decode()))

    @override
    def read(self, name: str) -> bytes:
        return b64decode(self._guest.call("read", host=self.name, name=name))

    @override
    def fetch(self, name: str) -> None:
        write_private(self._copies / name, self.read(name))

    @override
    def capturing(self, file: Path | BinaryIO, wish: CaptureWish) -> "AbstractContextManager[Taken]":
        from toolkit.cluster.backends.vm.captures import capturing

        return capturing(self._guest, self.name, file, wish)

    @override
    def port(self, wanted: int, address: str = "") -> int:
        return int(self._guest.call("port", host=self.name, wanted=wanted, address=address))
