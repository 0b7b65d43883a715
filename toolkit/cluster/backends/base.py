"""The interface of backends: hosts to run programs on, and the network between them with its faults."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol, Self, TypeVar

from messenger.errors import LocalError
from toolkit.capture.target import ANY, Target
from toolkit.cluster.daemons import ask_admin_socket
from toolkit.cluster.forks import COMMAND
from toolkit.errors import Unsupported
from toolkit.faults.proxies import Proxies
from toolkit.faults.proxy import FaultProxy
from toolkit.machine.leases import Lease, lab_name
from toolkit.network.faults import NetworkFaults
from toolkit.network.places import Guest
from toolkit.network.redirect import end_redirection, redirect, way_in

if TYPE_CHECKING:
    from toolkit.capture.recorder import Taken
    from toolkit.cluster.forks import Forks
    from toolkit.dissect.keys import KeyBook
    from toolkit.faults.language.scene import ProxyHere

T = TypeVar("T")


class Program(Protocol):
    """A program on a host."""

    @property
    def stdin(self) -> BinaryIO | None:
        """Pipe to its standard input, with ``piped``."""

    @property
    def stdout(self) -> BinaryIO | None:
        """Pipe from its standard output, with ``piped``."""

    @property
    def pid(self) -> int:
        """Process id on this machine; 0 if it runs on another machine."""

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""

    def wait(self, timeout_s: float) -> int:
        """Wait until it exits and return its exit code; raises TimeoutError."""

    def signal(self, number: int) -> None:
        """Send a signal to it and to its children in the same session."""

    def errors(self) -> str:
        """Return the last lines of its standard error."""


class Host(ABC):
    """The host of one node: addresses, a directory, and programs to run."""

    name: str
    """Name of its node."""
    addresses: Mapping[str, str]
    """Its IP address on each of its networks, by the network's name."""
    messenger: Sequence[str] = COMMAND
    """Command that starts a messenger; containers have ``msgrlab node``."""
    namespace: Path | None = None
    """File of its network namespace on this machine, which root can enter; None if it has none of its own."""
    directory: Path
    """Directory for its files, by its path on the host."""
    interface: str = ANY
    """Interface that has its packets, in its network namespace: one, or all of them."""
    is_container: bool = False
    """True if it has its own file system, with the programs of its image."""
    keeps_logs_here: bool = True
    """True if the logs of its programs are files of this machine."""
    clock_ahead_s: float = 0.0
    """Seconds by which its monotonic clock is ahead of this process's."""
    slowness: float = 1.0
    """Factor of time limits, more than 1 if its processor may be emulated."""
    lasting: Sequence[str] = ()
    """Command prefix that makes a daemon die with the thread that started it; empty if impossible."""

    @cached_property
    def variables(self) -> dict[str, str]:
        """Additional environment variables of programs that are started from now on."""
        return {}

    @cached_property
    def options(self) -> dict[str, bool | int | float | str]:
        """Messenger options that the host requires, by Ceph's names; a node's own options override them."""
        return {}

    @property
    def has_rdma(self) -> bool:
        """True if its messengers communicate by RDMA."""
        return self.options.get("ms_type") == "async+rdma"

    @abstractmethod
    def start(self, argv: Sequence[str], *, piped: bool = False, log: str = "") -> Program:
        """Start a program.

        Args:
            argv: the program, found in the host's PATH, and its arguments.
            piped: True to connect its input and output to pipes; otherwise its input is empty.
            log: name of a file in ``directory`` for its output, or with ``piped`` for its standard error.

        Raises:
            LocalError: there is no such program.
        """

    @abstractmethod
    def run(self, *argv: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        """Run a program and return its standard output.

        Raises:
            LocalError: it failed, with the last line of its error output, or timed out.
        """

    @abstractmethod
    def interactive(self, argv: Sequence[str]) -> int:
        """Run a program on the user's terminal or pipes; returns its exit code."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> Path:
        """Write a file in ``directory``; returns its path on the host."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file in ``directory``; raises LocalError if there is none."""

    def fetch(self, name: str) -> None:  # noqa: B027 - most hosts share this machine's file system
        """Copy a file of ``directory`` to this machine, if the host has its own file system; raises LocalError."""

    def ask(self, daemon: str, command: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever JSON it answers
        """Return the answer of a daemon of Ceph on its admin socket, ``DAEMON.asok`` in ``directory``.

        Args:
            daemon: name of the daemon: ``osd.0``.
            command: the command's ``prefix`` and arguments.

        Raises:
            LocalError: the daemon does not answer, or does not have the command.
        """
        path = self.directory / f"{daemon}.asok"
        try:
            return ask_admin_socket(path, command)
        except OSError as error:
            raise LocalError(f"{daemon}: {path.name}: {error.strerror or error}") from None

    def inside(self, what: Callable[[], T]) -> T:
        """Run a function in the host's network namespace, in this process; sockets it opens stay there."""
        return what()

    def port(self, wanted: int, address: str = "") -> int:  # noqa: ARG002 - not all hosts share addresses
        """Return a free TCP port for an address (the first by default): ``wanted`` if no other host shares it."""
        return wanted

    def capturing(self, file: Path | BinaryIO, wish: "CaptureWish") -> "AbstractContextManager[Taken]":
        """Capture the host's packets while the ``with`` block runs.

        Args:
            file: path of the pcapng file to write, which must not exist; or an open file, which stays open.
            wish: what it records.

        Raises:
            Unsupported: this process may not capture there.
            LocalError: the file exists or cannot be written.
        """
        from toolkit.capture.recorder import capturing

        target = Target(f"node {self.name}", self.interface, self.namespace, loopback=wish.loopback)
        log = self.directory / wish.key_log if wish.key_log else None
        return capturing(target, file, ports=wish.ports, key_log=log, notes=wish.notes)

    def entering(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on the host from this machine (``msgrlab exec``)."""
        command = self.with_variables(argv)
        return command if self.namespace is None else ["nsenter", f"--net={self.namespace}", "--", *command]

    def with_variables(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program with the host's additional environment variables."""
        settings = [f"{name}={value}" for name, value in self.variables.items()]
        return ["env", *settings, *argv] if settings else [*argv]


@dataclass(frozen=True, slots=True)
class HostWish:
    """Requirements for a host."""

    name: str
    networks: tuple[str, ...]
    """Names of its networks; peers dial it on the first."""
    image: str = ""
    """Image of its programs, such as ``ceph:tentacle``; empty for this machine's programs."""
    addresses: Mapping[str, str] | None = None
    """Fixed addresses by network; None to assign them."""
    memory_mib: int = 32
    """Memory that its programs need, in MiB, besides what they share with those of other hosts."""


@dataclass(frozen=True, slots=True)
class CaptureWish:
    """Requirements for a capture of a host."""

    ports: str
    """TCP ports of either end, such as ``3300,6800-7568``, or ``all``."""
    key_log: str = ""
    """Name of a file in the host's directory whose keys are embedded in the capture; empty for none."""
    notes: Sequence[str] = ()
    """Comments to embed in the capture."""
    loopback: bool = True
    """False to leave out the loopback interface, which shows the directions of a redirected connection as two
    connections."""


@dataclass(frozen=True, slots=True)
class NetworkWish:
    """Requirements for a network."""

    name: str
    subnet: str = ""
    """Subnet, as in ``10.1.0.0/24``; a free one unless given."""
    mtu: int = 1500


class Backend(ABC):
    """Makes hosts and the networks between them.

    Args:
        lease: lease of the cluster; everything that is made is journalled first, and has the cluster's label.
        report: called with a short description of each step, for display.
    """

    name: ClassVar[str]
    always_proxied: ClassVar[bool] = False
    """True if nodes always dial each other through proxies, which act as the network."""
    ipv6_subnet: ClassVar[str] = "fd77::/64"
    """Subnet for an IPv6 network, which nothing outside of the cluster sees."""
    removes_hosts: ClassVar[bool] = False
    """True if hosts can be added and removed while the cluster is up."""
    zygote: "Forks | None" = None
    """Process that forks messengers quickly, if this process has one."""

    def __init__(self, lease: Lease, report: Callable[[str], None]) -> None:
        self.lease = lease
        self.report = report
        self.hosts: dict[str, Host] = {}
        self.announce = report
        """Called with a line before something is fetched or run that was not requested by name."""
        self._redirections: dict[tuple[str, str], Path] = {}
        """Namespaces in which the kernel redirects connections to a proxy, by connector and acceptor."""
        self.keys: KeyBook | None = None
        """Keys with which proxies parse frames of secure links."""
        self.proxies = Proxies(lambda: self.keys)
        self.first_port = 6800
        """First port that nodes listen on, on hosts with their own addresses."""

    @classmethod
    @contextmanager
    def passing(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish] = ()) -> Iterator[Self]:
        """Open a temporary backend in this process for the duration of a ``with`` block.

        Raises:
            Unsupported: as :meth:`check`.
            LocalError: it could not be opened; nothing of it is left.
        """
        cls.check(networks, hosts)
        with ExitStack() as undo:
            lease = Lease.take(lab_name())
            undo.callback(lease.journal.undo)
            undo.enter_context(lease.held())
            backend = cls(lease, lambda _step: None)
            undo.callback(backend.close)
            backend.open(networks, hosts)
            yield backend

    @classmethod
    def lent(cls, networks: Sequence[NetworkWish]) -> "AbstractContextManager[Backend]":
        """Do as :meth:`passing`, without hosts, which are added later; containers may be reused."""
        return cls.passing(networks)

    @classmethod
    @abstractmethod
    def check(cls, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """Check that this machine can provide the networks and hosts; changes nothing.

        Raises:
            Unsupported: something is missing; the message names it and a command that helps.
            LocalError: addresses are invalid or in use.
        """

    @classmethod
    def ceph_releases(cls) -> Sequence[str]:
        """Return the Ceph releases that its hosts can run at once, the oldest first; ``host`` is this machine's.

        Raises:
            Unsupported: no engine answers.
        """
        return ("host",)

    @abstractmethod
    def open(self, networks: Sequence[NetworkWish], hosts: Sequence[HostWish]) -> None:
        """Make networks and hosts; after a failure the journal lists what has to be undone.

        Raises:
            LocalError: something could not be made.
        """

    @abstractmethod
    def add(self, *wishes: HostWish) -> None:
        """Make more hosts on the existing networks.

        Raises:
            LocalError: a host could not be made.
        """

    def remove(self, name: str) -> None:
        """Kill a host's programs and remove it from its networks; its files stay until the cluster goes down.

        Raises:
            Unsupported: this backend cannot remove hosts.
            LocalError: it could not be removed.
        """
        raise Unsupported(
            f"{name}: hosts of {self.name} cannot be removed while the cluster is up: --backend process or netns"
        )

    def plug_guest(self, guest: Guest) -> None:
        """Include a virtual machine with a port at the switch in the faults of the network.

        Raises:
            Unsupported: hosts of this backend have no switch on this machine.
            LocalError: there is no such network.
        """
        raise Unsupported(
            f"{guest.name}: virtual machines can be attached to clusters with --backend netns, not {self.name}"
        )

    def unplug_guest(self, name: str) -> None:  # noqa: B027 - only some backends have guests
        """Remove the faults of a virtual machine that leaves; raises LocalError."""

    @property
    @abstractmethod
    def network(self) -> NetworkFaults:
        """The network faults between the hosts."""

    def proxy(self, dialler: str, dialled: str, address: tuple[str, int]) -> "ProxyHere":
        """Return the proxy from one node to an address of another, on the connector's host.

        Raises:
            LocalError: it cannot listen.
            Unsupported: this process cannot open sockets on that host.
        """
        if not self.always_proxied:
            self._namespace(dialler)
        return self.proxies.open(dialler, dialled, address, self.hosts[dialler].inside)

    def redirected(self, dialler: str, dialled: str) -> "ProxyHere":
        """Return a new proxy that gets all connections from one node to another, to any port.

        The kernel of the connector's host redirects them, so that programs need no other addresses.

        Raises:
            LocalError: it cannot listen, or the kernel rejects the redirection.
            Unsupported: this process cannot open sockets on that host, or nft is not installed.
        """
        namespace = self._namespace(dialler)
        addresses = tuple(self.hosts[dialled].addresses.values())
        host, inside = way_in(addresses), self.hosts[dialler].inside
        proxy = FaultProxy(dialler, dialled, None, keys=self.keys, host=host, inside=inside)
        try:
            redirect(namespace, addresses, proxy.port)
        except BaseException:
            proxy.close()
            raise
        self.proxies.keep(proxy)
        self._redirections[dialler, dialled] = namespace
        return proxy

    def _namespace(self, dialler: str) -> Path:
        """Return the network namespace for a node's proxies; raises Unsupported."""
        found = self.hosts[dialler].namespace
        if found is None:
            raise Unsupported(f"proxy from {dialler}: its host cannot be entered from here: --backend netns")
        return found

    def end_proxy(self, dialler: str, dialled: str) -> None:
        """Close the proxies from one node to another, and their connections; one of the network's own stays."""
        if self.always_proxied:
            return
        namespace = self._redirections.pop((dialler, dialled), None)
        if namespace is not None:
            (proxy,) = self.proxies.on(dialler, dialled)
            end_redirection(namespace, proxy.port)
        self.proxies.drop(dialler, dialled)

    def proxies_on(self, dialler: str, dialled: str, port: int = 0) -> "Sequence[ProxyHere]":
        """Return the proxies from one node to another; with ``port``, only those to that port."""
        return self.proxies.on(dialler, dialled, port)

    def route(self, dialler: str, dialled: str, address: tuple[str, int]) -> tuple[str, int]:
        """Return the host and port that ``dialler`` connects to in order to reach ``address`` of ``dialled``.

        That is the proxy's address if nodes are always proxied, else ``address`` itself.
        """
        if not self.always_proxied:
            return address
        proxy = self.proxy(dialler, dialled, address)
        return proxy.host, proxy.port

    def lost(self) -> dict[str, list[str]]:
        """Return the hosts on machines that do not answer, by a few words about the machine."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Kill all programs and remove everything quickly; the journal undoes what remains."""
        self.proxies.close()
