"""What every backend provides: hosts to run programs on, and a network between them to break."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Protocol, Self, TypeVar

from toolkit.errors import Unsupported
from toolkit.faults.proxies import Proxies
from toolkit.faults.proxy import FaultProxy
from toolkit.machine.interpreters import PYTHON
from toolkit.machine.leases import Lease, lab_name
from toolkit.network.faults import NetworkFaults

if TYPE_CHECKING:
    from toolkit.cluster.zygote import Zygote
    from toolkit.dissect.keys import KeyBook

T = TypeVar("T")


class Program(Protocol):
    """A program that was started on a host."""

    @property
    def stdin(self) -> BinaryIO | None:
        """Standard input of the program, if it was started with ``piped``."""

    @property
    def stdout(self) -> BinaryIO | None:
        """Standard output of the program, if it was started with ``piped``."""

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
        """The last lines of its standard error."""


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
    """True if the host has its own file system with the programs of its image."""

    @cached_property
    def variables(self) -> dict[str, str]:
        """Environment variables of programs that are started from now on, beside what they have anyway."""
        return {}

    @cached_property
    def options(self) -> dict[str, bool | int | float | str]:
        """Options that messengers of ours have because of where they are; their own options are stronger."""
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

    def fetch(self, name: str) -> None:  # noqa: B027 - most hosts share this machine's file system
        """Copy a file of ``directory`` to this machine, unless it is there; raises LocalError if there is none."""

    def inside(self, what: Callable[[], T]) -> T:
        """Do something in its network namespace, in this process; sockets opened there stay there."""
        return what()

    def port(self, wanted: int, address: str = "") -> int:  # noqa: ARG002 - not all hosts share addresses
        """A free TCP port of an address (the first unless given): the wanted one, if only this host has it."""
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
        say: called with a few words about each step, for a user who waits.
    """

    name: ClassVar[str]
    always_proxied: ClassVar[bool] = False
    """True if nodes dial each other through proxies, which are the whole network."""
    ipv6_subnet: ClassVar[str] = "fd77::/64"
    """Subnet for a network of IPv6 that nobody else has to know."""
    removes_hosts: ClassVar[bool] = False
    """True if hosts can come and go while the cluster is up."""
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
        self.proxies = Proxies(lambda: self.keys)
        self.first_port = 6800
        """From which on nodes listen, on hosts that have their addresses to themselves."""

    @classmethod
    @contextmanager
    def passing(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish] = ()) -> Iterator[Self]:
        """A backend of this process, open for as long as the block lasts.

        Raises:
            Unsupported: as :meth:`check`.
            LocalError: it did not work; nothing of it is left.
        """
        cls.check(networks, hosts)
        with ExitStack() as undo:
            lease = Lease.take(lab_name())
            undo.callback(lease.journal.undo)
            undo.enter_context(lease.held())
            backend = cls(lease, lambda _doing: None)
            undo.callback(backend.close)
            backend.open(networks, hosts)
            yield backend

    @classmethod
    def lent(cls, networks: Sequence[NetworkWish]) -> "AbstractContextManager[Backend]":
        """The same without hosts, which are added; those that are slow to start may have been used before."""
        return cls.passing(networks)

    @classmethod
    @abstractmethod
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """Whether this can be had here; nothing is changed.

        Raises:
            Unsupported: something is missing: what it is, and the command that helps.
            LocalError: impossible or busy addresses.
        """

    @classmethod
    def ceph_releases(cls) -> Sequence[str]:
        """The releases of Ceph that its hosts have at once, the oldest first; ``host`` is what this machine has.

        Raises:
            Unsupported: no engine answers.
        """
        return ("host",)

    @abstractmethod
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """Make networks and hosts; on failure the journal knows what there is.

        Raises:
            LocalError: it did not work.
        """

    @abstractmethod
    def add(self, *wishes: HostWish) -> None:
        """Make more hosts on the networks that there are.

        Raises:
            LocalError: it did not work.
        """

    def remove(self, name: str) -> None:
        """End a host's programs and take it off its networks; its files stay until the cluster goes down.

        Raises:
            Unsupported: hosts of this backend stay.
            LocalError: it did not work.
        """
        raise Unsupported(
            f"{name}: hosts of {self.name} stay as long as their cluster: --backend process or netns"
        )

    @property
    @abstractmethod
    def network(self) -> NetworkFaults:
        """What can be done to the network between the hosts."""

    def proxy(self, dialler: str, dialled: str, address: tuple[str, int]) -> FaultProxy:
        """The proxy on the way from one node to an address of another, on the connector's host.

        Raises:
            LocalError: no port could be opened.
            Unsupported: sockets cannot be opened on that host from here.
        """
        return self.proxies.open(dialler, dialled, address, self.hosts[dialler].inside)

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Where a node has to dial to reach an address of another: host and port; the address itself, mostly."""
        if not self.always_proxied:
            return address
        proxy = self.proxy(dialler, dialled, address)
        return proxy.host, proxy.port

    @abstractmethod
    def close(self) -> None:
        """End every program and remove everything, in good order and quickly; the journal does the rest."""
        self.proxies.close()
