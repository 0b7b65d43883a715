"""The guest's side of the backend ``vm``: makes hosts with the backend of the guest, and runs their programs.

``python -m toolkit.cluster.backends.vm.agent NAME TRANSPORT`` answers calls on the guest's port until the host
closes it.
"""

import contextlib
import os
import queue
import resource
import sys
import threading
import time
import tty
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish, Program
from toolkit.cluster.backends.vm.agent_captures import AgentCaptures
from toolkit.cluster.backends.vm.agent_proxies import AgentProxies
from toolkit.cluster.backends.vm.channel import Channel, Frame, Kind, refusal
from toolkit.cluster.zygote import Zygote
from toolkit.machine.leases import Lease
from toolkit.machine.vm.engine import PORT
from toolkit.network.state import LinkState

INNER = {"tcp": "netns", "rdma": "process"}
"""Backend that makes the hosts in the guest, by the transport of their links."""
_CHUNK_BYTES = 1 << 16
_LOOK_S = 3600.0


class Agent:
    """Answers calls about the hosts of a cluster and their programs.

    Args:
        channel: stream of the calls.
        backend: makes the hosts.
    """

    def __init__(self, channel: Channel, backend: Backend) -> None:
        self._channel = channel
        self._backend = backend
        self._programs: dict[int, Program] = {}
        """Programs that run, by the numbers that the host gave them."""
        self._inputs: dict[int, queue.SimpleQueue[bytes]] = {}
        self._parts: dict[str, object] = {
            "": self,
            "captures": AgentCaptures(channel, backend),
            "proxies": AgentProxies(channel, backend),
        }
        """Objects whose methods ``do_NAME`` answer the calls ``PART.NAME``."""

    def serve(self) -> None:
        """Answer calls until the host closes the stream."""
        for frame in self._channel.frames():
            if frame.kind is Kind.INPUT:
                if (inputs := self._inputs.get(frame.number)) is not None:  # else it has just ended
                    inputs.put(frame.payload)
            else:
                threading.Thread(target=self._answer, args=(frame,), daemon=True).start()

    def _answer(self, frame: Frame) -> None:
        do, args = frame.values()
        try:
            part, _, method = do.rpartition(".")
            answer = {"result": getattr(self._parts[part], f"do_{method}")(**args)}
        except Exception as error:  # noqa: BLE001 - the caller gets it
            answer = refusal(error)
        with contextlib.suppress(OSError):
            self._channel.send_values(Kind.ANSWER, frame.number, answer)

    # ---- hosts

    def do_open(self, networks: Sequence[Mapping[str, Any]], hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Make networks and hosts; returns what the host has to know about the network."""
        wishes = [_host_wish(each) for each in hosts]
        places = [NetworkWish(**each) for each in networks]
        self._backend.check(places, wishes)
        self._backend.open(places, wishes)
        network = self._backend.network
        return {
            "hosts": self._about([wish.name for wish in wishes]),
            "lacks": dict(network.lacks),
            "has_rdma": network.has_rdma,
        }

    def do_add(self, hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Make more hosts."""
        wishes = [_host_wish(each) for each in hosts]
        self._backend.add(*wishes)
        return self._about([wish.name for wish in wishes])

    def do_remove(self, name: str) -> None:
        """Remove a host."""
        self._backend.remove(name)

    def do_port(self, host: str, wanted: int, address: str) -> int:
        """Return a free port of a host."""
        return self._backend.hosts[host].port(wanted, address)

    def do_route(self, dialler: str, dialled: str, address: Sequence[Any]) -> tuple[str, int]:
        """Return the address that a node dials to reach another."""
        return self._backend.route(dialler, dialled, (address[0], address[1]))

    def do_clock(self) -> float:
        """Return the time of the guest's monotonic clock, in seconds."""
        return time.monotonic()

    def _about(self, names: Sequence[str]) -> dict[str, Any]:
        return {
            name: {"addresses": dict(host.addresses), "directory": str(host.directory), "options": host.options}
            for name in names
            for host in [self._backend.hosts[name]]
        }

    # ---- files and programs

    def do_write(self, host: str, name: str, content: str) -> str:
        """Write a file of a host; returns its path."""
        return str(self._backend.hosts[host].write(name, b64decode(content)))

    def do_read(self, host: str, name: str) -> str:
        """Return a file of a host."""
        return b64encode(self._backend.hosts[host].read(name)).decode()

    def do_run(
        self, host: str, argv: Sequence[str], stdin: str, variables: Mapping[str, str], timeout_s: float
    ) -> str:
        """Run a program and return its output."""
        found = self._backend.hosts[host]
        found.variables.update(variables)
        return found.run(*argv, stdin=stdin, timeout_s=timeout_s)

    def do_ask(self, host: str, daemon: str, command: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as JSON
        """Return the answer of a daemon of Ceph on its admin socket."""
        return self._backend.hosts[host].ask(daemon, command)

    def do_start(
        self,
        program: int,
        host: str,
        argv: Sequence[str],
        variables: Mapping[str, str],
        log: str,
        *,
        piped: bool,
    ) -> None:
        """Start a program, which gets this number."""
        found = self._backend.hosts[host]
        found.variables.update(variables)
        started = found.start(argv, piped=piped, log=log)
        self._programs[program] = started
        if piped:
            inputs = self._inputs[program] = queue.SimpleQueue()
            threading.Thread(target=self._feed, args=(inputs, started), daemon=True).start()
        threading.Thread(target=self._watch, args=(program, started), daemon=True).start()

    def do_signal(self, program: int, number: int) -> None:
        """Send a signal to a program, if it still runs."""
        if (running := self._programs.get(program)) is not None:
            running.signal(number)

    def do_errors(self, program: int) -> str:
        """Return the last lines of a program's standard error; empty if it has ended."""
        running = self._programs.get(program)
        return "" if running is None else running.errors()

    @staticmethod
    def _feed(inputs: "queue.SimpleQueue[bytes]", program: Program) -> None:
        """Write a program's input: a frozen one does not read, and others must not wait for it."""
        assert program.stdin is not None
        with contextlib.suppress(OSError, ValueError), program.stdin:
            while chunk := inputs.get():
                program.stdin.write(chunk)
                program.stdin.flush()

    def _watch(self, number: int, program: Program) -> None:
        """Forward a program's output, then its exit code and its last errors."""
        with contextlib.suppress(OSError):
            if program.stdout is not None:
                while chunk := os.read(program.stdout.fileno(), _CHUNK_BYTES):
                    self._channel.send(Kind.OUTPUT, number, chunk)
                self._channel.send(Kind.OUTPUT, number)
            while (code := program.poll()) is None:
                with contextlib.suppress(TimeoutError):
                    program.wait(_LOOK_S)
            if (inputs := self._inputs.pop(number, None)) is not None:
                inputs.put(b"")
            del self._programs[number]
            self._channel.send_values(Kind.EXIT, number, [code, program.errors()])

    # ---- network

    def do_initial(self, states: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Set the impairments that links get back when the network heals."""
        self._backend.network.initial = {
            (sender, receiver): LinkState(**state) for sender, receiver, state in states
        }

    def do_network(self, calls: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]]) -> Any:  # noqa: ANN401
        """Call methods of the network, all at once if possible; returns the last result."""
        network, found = self._backend.network, None
        with network.at_once() if len(calls) > 1 else contextlib.nullcontext():
            for method, args, named in calls:
                values = [LinkState(**each) if isinstance(each, dict) else each for each in args]
                found = getattr(network, method)(*values, **named)
        return found.model_dump(mode="json") if isinstance(found, LinkState) else found


def _host_wish(values: Mapping[str, Any]) -> HostWish:
    return HostWish(**{**values, "networks": tuple(values["networks"])})


def _port() -> int:
    """Open the port of the guest that is connected to the host; a serial line passes on all bytes then."""
    port = os.open(PORT, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    if os.isatty(port):
        tty.setraw(port)
    return port


def main(name: str, transport: str) -> None:
    """Answer calls until the host closes the port. Nothing is undone, because the guest ends then."""
    zygote = Zygote(has_payloads=False)  # first, before locks, open files and threads
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)  # Ceph warns of less over RDMA
    lease = Lease.take(name)
    with lease.held():
        backend = backend_named(INNER[transport], transport)(lease, lambda _words: None)
        backend.zygote = zygote
        channel = Channel(_port())
        channel.send_values(Kind.ANSWER, 0, {"result": None})
        Agent(channel, backend).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
