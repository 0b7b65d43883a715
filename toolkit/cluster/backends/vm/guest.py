"""The guest of a cluster, and the calls to its agent."""

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from messenger.errors import LocalError
from toolkit.cluster.backends.vm.channel import Channel, Frame, Kind, result
from toolkit.cluster.backends.vm.program import GuestProgram
from toolkit.machine import vm
from toolkit.machine.leases import Lease
from toolkit.machine.private import DIRECTORY_MODE

_AGENT = "toolkit.cluster.backends.vm.agent"
_PRELOADED = ("toolkit.cluster.backends.netns", "toolkit.cluster.backends.rdma", "toolkit.cluster.zygote")
_DIRECTORY = ".vm"
"""Directory of the guest's files in that of the cluster; no node has this name."""
_HELLO_S = 300.0
"""Most seconds until the agent answers; an emulated one imports its modules first."""
_CALL_S = 300.0
_END_S = 10.0
_CLOCKS = 5
"""Number of times that the guest's clock is read."""
_HELLO = 0
"""Number of the answer that the agent sends first, without a call."""


class Receiver(Protocol):
    """Gets frames of the agent that have its number."""

    def put(self, output: bytes) -> None:
        """Take the payload of an OUTPUT frame."""

    def exit(self, *how: Any) -> None:  # noqa: ANN401 - as JSON
        """Take the end: what an EXIT frame says, or nothing if the guest has ended."""


class Guest:
    """A virtual machine with the agent of one cluster.

    Args:
        lease: lease of the cluster, which has the same name in the guest.
        transport: transport of the messengers' links.
        memory_mib: memory of the guest, in MiB.
        kernel: kernel of the guest.
    """

    def __init__(self, lease: Lease, transport: str, memory_mib: int, kernel: vm.Kernel) -> None:
        self._lease = lease
        self._transport = transport
        self._directory = lease.directory / _DIRECTORY
        where = vm.Place(self._directory, str(lease.label))
        self._machine = vm.Machine(
            kernel=kernel, memory_mib=memory_mib, preload=_PRELOADED, has_port=True, where=where
        )
        self._channel: Channel | None = None
        self._threads: list[threading.Thread] = []
        self._numbers = count(_HELLO + 1)
        self._answers: dict[int, SimpleQueue[dict[str, Any]]] = {_HELLO: SimpleQueue()}
        self._receivers: dict[int, Receiver] = {}
        """Programs, captures and rules of proxies in the guest."""
        self._why = ""
        self.is_running = False
        """True from the agent's first answer to the end of the guest."""
        self.clock_ahead_s = 0.0
        """Seconds by which its monotonic clock is ahead of this process's."""

    def boot(self) -> None:
        """Boot the guest and start its agent.

        Raises:
            Unsupported: the engine or the kernel is missing.
            LocalError: the guest or its agent has not started.
        """
        self._directory.mkdir(mode=DIRECTORY_MODE)
        self._machine.boot()
        assert self._machine.port is not None
        self._channel = Channel(os.dup(self._machine.port.fileno()))
        for target, name in ((self._run_agent, "agent"), (self._read, "guest")):
            self._threads.append(threading.Thread(target=target, name=name, daemon=True))
            self._threads[-1].start()
        try:
            result(self._answers[_HELLO].get(timeout=_HELLO_S))
        except Empty:
            raise LocalError(f"the agent of the virtual machine has not answered within {_HELLO_S:g} s") from None
        self.is_running = True
        self.clock_ahead_s = self._measured_clock_s()

    def close(self) -> None:
        """End the guest, and with it all programs in it."""
        self.is_running = False
        self._machine.close()
        for thread in self._threads:
            thread.join(_END_S)
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def call(self, do: str, patience_s: float = _CALL_S, /, **args: Any) -> Any:  # noqa: ANN401 - as JSON
        """Call the agent and return its answer, within ``patience_s``; from any thread.

        Raises:
            Unsupported: the guest cannot do it.
            LocalError: the call failed, or the guest has ended.
        """
        number = next(self._numbers)
        answers = self._answers[number] = SimpleQueue()
        try:
            self._send(Kind.CALL, number, [do, args])
            return result(answers.get(timeout=patience_s))
        except BrokenPipeError as error:
            raise LocalError(str(error)) from None
        except Empty:
            raise LocalError(f"the virtual machine: no answer to {do} within {patience_s:g} s") from None
        finally:
            del self._answers[number]

    def start(self, host: str, argv: Sequence[str], **how: Any) -> GuestProgram:  # noqa: ANN401 - as JSON
        """Start a program; arguments are those of the agent's call.

        Raises:
            LocalError: there is no such program, or the guest has ended.
        """
        number = next(self._numbers)
        program = self._receivers[number] = GuestProgram(
            feed=lambda content: self._send(Kind.INPUT, number, content),
            call=lambda do, **args: self.call(do, program=number, **args),
            piped=how["piped"],
        )
        try:
            self.call("start", program=number, host=host, argv=[*argv], **how)
        except LocalError:
            self.forget(number)
            program.exit()
            raise
        return program

    def register(self, receiver: "Receiver") -> int:
        """Return the number of a new receiver, which gets the frames of the agent that have it."""
        number = next(self._numbers)
        self._receivers[number] = receiver
        return number

    def forget(self, number: int) -> None:
        """Remove a receiver; later frames for it are dropped."""
        self._receivers.pop(number, None)

    def _send(self, kind: Kind, number: int, payload: bytes | list[Any]) -> None:
        """Send a frame; raises BrokenPipeError, with the reason, if the guest has ended."""
        channel = self._channel
        try:
            if channel is None or not self.is_running:
                raise BrokenPipeError
            if isinstance(payload, bytes):
                channel.send(kind, number, payload)
            else:
                channel.send_values(kind, number, payload)
        except OSError:
            raise BrokenPipeError(self._gone()) from None

    def _gone(self) -> str:
        return ": ".join(filter(None, ("the virtual machine has ended", self._why)))

    def _measured_clock_s(self) -> float:
        """Return how far the guest's clock is ahead: the reading with the shortest way there and back."""
        found = []
        for _ in range(_CLOCKS):
            asked_s = time.monotonic()
            theirs_s = float(self.call("clock"))
            answered_s = time.monotonic()
            found.append((answered_s - asked_s, theirs_s - (asked_s + answered_s) / 2))
        return min(found)[1]

    # ---- threads

    def _run_agent(self) -> None:
        """Run the agent until it ends, and the guest with it."""
        try:
            done = self._machine.run_module(_AGENT, self._lease.label.name, self._transport)
            self._why = (done.stderr.strip().splitlines() or ["its agent has ended"])[-1]
        except LocalError as error:
            self._why = str(error)
        self._machine.close()

    def _read(self) -> None:
        """Dispatch the frames of the agent until the guest ends."""
        assert self._channel is not None
        with contextlib.suppress(OSError):
            for frame in self._channel.frames():
                self._take(frame)
        self._threads[0].join()  # then the reason is known
        self.is_running = False
        for answers in list(self._answers.values()):
            answers.put({"error": self._gone(), "unsupported": False})
        for receiver in list(self._receivers.values()):
            receiver.exit()
        self._receivers.clear()

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.ANSWER:
            if (answers := self._answers.get(frame.number)) is not None:  # else nothing waits for it any more
                answers.put(frame.values())
        elif (receiver := self._receivers.get(frame.number)) is None:
            return
        elif frame.kind is Kind.OUTPUT:
            receiver.put(frame.payload)
        elif frame.kind is Kind.EXIT:
            self.forget(frame.number)
            receiver.exit(*frame.values())
