"""What every backend provides: hosts to run programs on, and a network between them to break."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Protocol, TypeVar

from toolkit.interpreters import PYTHON
from toolkit.machine.leases import Lease
from toolkit.network.faults import NetworkFaults

if TYPE_CHECKING:
    from toolkit.cluster.zygote import Zygote
    from toolkit.dissect.keys import KeyBook
    from toolkit.faults.proxy import FaultProxy

T = TypeVar("T")


class Program(Protocol):
    """A program that was started on a host."""

    @property
    def stdin(self) -> BinaryIO | None:
        """Its input, if it was started with ``piped``."""

    @property
    def stdout(self) -> BinaryIO | None:
        """Its output, likewise."""

    @property
    def pid(self) -> int:
        """Its process id as this machine sees it; 0 on another machine."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; raises TimeoutError."""

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it has started."""

    def errors(self) -> str:
        """The last lines of what it has said on its standard error."""


class Host(ABC):
    """A machine of the cluster, as far as it goes: an address, a file system, programs."""

    name: str
    """Of the node it is for."""
    addresses: Mapping[str, str]
    """IP address on each of its networks, by the network's name."""
    messenger: Sequence[str] = (*PYTHON, "-m", "toolkit.cluster.node")
    """How a messenger of ours is started there; an image has ``msgrlab node``."""
    namespace: Path | None = None
    """File of its network namespace, to be entered by root on this machine; None: it has none of its own."""
    directory: Path
    """A directory for its files, by the name that programs on it know."""
    is_container: bool = False
    """Whether it has a file system of its own, and in it the programs of its image."""

    @cached_property
    def variables(self) -> dict[str, str]:
        """Environment variables of programs that are started from now on, beside what they have anyway."""
        return {}

    @abstractmethod
    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> Program:
        """Start a program.

        Args:
            argv: the program, found in the host's PATH, and its arguments.
            piped: whether to speak with it through pipes; otherwise its input is empty.
            log: file in ``directory`` for what it prints; with ``piped`` that is its standard error alone.

        Raises:
            LocalError: there is no such program.
        """

    @abstractmethod
    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        """What a program prints.

        Raises:
            LocalError: it failed, with its own words, or did not end in time.
        """

    @abstractmethod
    def interactive(self, argv: Sequence[str]) -> int:
        """Run a program on the user's own terminal or pipes; returns its exit code."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> Path:
        """Write a file in ``directory``; returns its path as programs there know it."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file in ``directory``; raises LocalError if there is none."""

    def inside(self, what: Callable[[], T]) -> T:
        """Do something in its network namespace, in this process; sockets opened there stay there."""
        return what()

    def port(self, wanted: int) -> int:
        """A free TCP port: the one that is wanted, where the host has its addresses to itself."""
        return wanted

    def entering(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs a program on this host from anywhere on this machine (``msgrlab exec``)."""
        settings = [f"{name}={value}" for name, value in self.variables.items()]
        command = ["env", *settings, *argv] if settings else [*argv]
        return command if self.namespace is None else ["nsenter", f"--net={self.namespace}", "--", *command]


@dataclass(frozen=True, slots=True)
class HostWish:
    """What a host of a cluster is to be."""

    name: str
    networks: tuple[str, ...]
    """Names of networks it is on; the first is the one that peers use."""
    image: str = ""
    """Which programs it has: those of this machine, or those of an image such as ``ceph:tentacle``."""
    addresses: Mapping[str, str] | None = None
    """Its addresses by network, where they are to be certain ones."""


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """What a network of a cluster is to be."""

    name: str
    subnet: str = ""
    """As in ``10.1.0.0/24``; whatever is free unless given."""
    mtu: int = 1500


class Backend(ABC):
    """One way to make hosts and networks.

    Args:
        lease: of the cluster; everything made is noted in its journal first, and carries its label.
        say: told in a few words what is being done, for whoever waits.
    """

    name: ClassVar[str]
    zygote: "ClassVar[Zygote | None]" = None
    """Of this process, if it has one: it starts messengers of ours quickly."""

    def __init__(self, lease: Lease, say: Callable[[str], None]) -> None:
        self.lease = lease
        self.say = say
        self.hosts: dict[str, Host] = {}
        self.announce = say
        """Called with a line before something is fetched or run that was not asked for by name."""
        self.keys: KeyBook | None = None
        """What proxies need to see frames of secure links."""

    @classmethod
    @abstractmethod
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """Whether this can be had here; nothing is changed.

        Raises:
            Unsupported: something is missing: what it is, and the command that helps.
            LocalError: impossible or busy addresses.
        """

    @abstractmethod
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """Make networks and hosts; on failure the journal knows what there is.

        Raises:
            LocalError: it did not work.
        """

    @property
    @abstractmethod
    def network(self) -> NetworkFaults:
        """What can be done to the network between the hosts."""

    def proxy(self, dialler: str, dialled: str, address: tuple[str, int]) -> "FaultProxy | None":  # noqa: ARG002
        """Through what a way from one node to an address of another goes anyway; None: it is direct."""
        return None

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Where a node has to dial to reach an address of another: host and port; the address itself, mostly."""
        proxy = self.proxy(dialler, dialled, address)
        return address if proxy is None else (proxy.host, proxy.port)

    @abstractmethod
    def close(self) -> None:
        """End every program and remove everything, in good order and quickly; the journal does the rest."""
