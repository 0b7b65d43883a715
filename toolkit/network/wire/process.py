"""Control of the wire's process."""

import contextlib
import json
import select
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine import interpreters
from toolkit.machine.interpreters import PYTHON
from toolkit.network.state import LinkState

_ANSWER_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Attachment:
    """An interface of a host, on a network."""

    host: str
    network: str
    namespace: Path | None
    """File of the interface's network namespace; None for that of the process that starts the wire."""
    interface: str = "eth0"
    mtu: int = 1500
    behind: str = ""
    """The host's Ethernet address, if the interface has another one; learnt from its packets otherwise."""


class Wire:
    """A switch in user space, in a process of its own; its ports are taps.

    It may be used by several threads.

    Args:
        environment: additions to the process's environment, such as its cluster's label.
        log: file for its standard error.
    """

    def __init__(self, *, environment: Mapping[str, str] | None = None, log: Path | None = None) -> None:
        with contextlib.ExitStack() as files:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "toolkit.network.wire"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=files.enter_context(log.open("ab")) if log else None,
                env={**interpreters.environment(), **(environment or {})},
                start_new_session=True,  # an interrupt at the terminal is for the process that keeps the cluster
            )
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the process runs."""
        return self._process.poll() is None

    def attach(self, *attachments: Attachment) -> list[str]:
        """Make interfaces, up but without IP addresses; they vanish with the wire.

        Returns:
            Their Ethernet addresses.

        Raises:
            LocalError: no such namespace, or it has an interface of that name.
            Unsupported: tap devices are not available.
        """
        return [
            self._ask(
                "attach",
                host=one.host,
                network=one.network,
                namespace=str(one.namespace or ""),
                interface=one.interface,
                mtu=one.mtu,
                behind=one.behind,
            )
            for one in attachments
        ]

    def detach(self, host: str) -> None:
        """Remove a host's interfaces."""
        self._ask("detach", host=host)

    def set(self, states: Mapping[tuple[str, str], LinkState]) -> None:
        """Set the states of links by sender and receiver, all at the same moment."""
        self._ask("set", links=[(*pair, state.model_dump(mode="json")) for pair, state in states.items()])

    def get(self, sender: str, receiver: str) -> LinkState:
        """Return the state of a link.

        Raises:
            LocalError: there is no such link.
        """
        return LinkState.model_validate(self._ask("get", sender=sender, receiver=receiver))

    def statistics(self) -> list[dict[str, Any]]:
        """Return counters per link: ``sender``, ``receiver``, ``network``, ``queued`` and the fields of Counts."""
        found: list[dict[str, Any]] = self._ask("statistics")
        return found

    def close(self) -> None:
        """End the process; its interfaces vanish."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, do: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            try:
                stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
                stdin.flush()
            except (BrokenPipeError, ValueError):
                raise LocalError("the wire has ended") from None
            # select() is enough: with one reply per command, no further line waits in the reader's buffer.
            if not select.select([stdout], [], [], _ANSWER_TIMEOUT_S)[0]:
                raise LocalError(f"the wire does not answer ({_ANSWER_TIMEOUT_S:g} s)")
            line = stdout.readline()
        if not line:
            raise LocalError("the wire has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise (Unsupported if answer["unsupported"] else LocalError)(answer["error"])
        return answer["ok"]
