"""An application that misuses the messenger, and an unknown peer that sends malformed frames."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.errors import Fault, LocalError
from messenger.messages.message import Message
from toolkit.errors import ScenarioFailed

if TYPE_CHECKING:
    from toolkit.node import NodeApp

_PARTS = 3
DECLARED_BYTES = 1 << 20
_DECLARATION_BYTES = 80
"""More than the header of a message in either protocol, and much less than the message."""
_NOISE_BYTES = 300
_STRANGERS_PATIENCE_S = 1.0
RELEASED = "operation forbidden on released memoryview object"
"""End of Python's error text for a released buffer."""


class CarelessError(Exception):
    """The exception that a careless application raises."""


@dataclass(slots=True)
class _Reaction:
    due: int
    action: str


class CarelessApp(Dispatcher):
    """A dispatcher that misuses the messenger on request and leaves messages to the node's own application.

    Args:
        app: the node's application, whose connections and counts it keeps correct.
    """

    def __init__(self, app: "NodeApp") -> None:
        self._app = app
        self._reactions: dict[str, list[_Reaction]] = {}

    def react(self, callback: str, nth: int, action: str) -> None:
        """Take ``action`` in the ``nth`` call of ``callback`` from now on.

        Args:
            callback: one of :data:`toolkit.simulation.careless.CALLBACKS`.
            nth: number of the call, from 1.
            action: ``raise``, ``mark_down``, ``send``, ``dial`` or ``release``.
        """
        self._reactions.setdefault(callback, []).append(_Reaction(nth, action))

    def forget(self) -> None:
        """Cancel all reactions."""
        self._reactions.clear()

    # ---- callbacks

    def ms_dispatch(self, connection: Connection, message: Message) -> bool:
        """Return False, so that the node's own application handles the message."""
        self._called("dispatch", connection, message)
        return False

    @override
    def ms_handle_connect(self, connection: Connection) -> None:
        self._called("connect", connection)

    @override
    def ms_handle_accept(self, connection: Connection) -> None:
        self._called("accept", connection)

    @override
    def ms_handle_reset(self, connection: Connection, fault: Fault) -> None:
        self._called("reset", connection)

    @override
    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:
        self._called("remote_reset", connection)

    @override
    def ms_handle_refused(self, connection: Connection, fault: Fault) -> None:
        self._called("refused", connection)

    def _called(self, callback: str, connection: Connection, message: Message | None = None) -> None:
        for reaction in list(self._reactions.get(callback, ())):
            reaction.due -= 1
            if not reaction.due:
                self._reactions[callback].remove(reaction)
                getattr(self, f"_{reaction.action}")(connection, message)

    # ---- misuse

    def _raise(self, _connection: Connection, _message: Message | None) -> None:
        raise CarelessError("in a callback")

    def _mark_down(self, connection: Connection, _message: Message | None) -> None:
        self._app.give_up(connection)

    def _send(self, connection: Connection, _message: Message | None) -> None:
        peer = self._app.name_of(connection)
        if self._app.connections.get(peer) is connection:
            self._app.send(peer, 2, 20)

    def _dial(self, connection: Connection, _message: Message | None) -> None:
        peer = self._app.name_of(connection)
        if not connection.session.policy.server and connection.session.target_addr.port:
            self._app.connect(peer)

    def _release(self, connection: Connection, message: Message | None) -> None:
        """Release a message that was not held, unless the application keeps messages."""
        if message is not None and not self._app.keeps:
            with suppress(LocalError):
                connection.release(message)


def take_back(app: "NodeApp", peer: str, part: int) -> None:
    """Send a message, then release one of its buffers, which the messenger may not have written yet."""
    buffer = memoryview(b"taken back")
    app.send_parts(peer, *(buffer if at == part else b"" for at in range(_PARTS)))
    buffer.release()


class Stranger:
    """A peer that no node expects, on the network of a lab.

    Args:
        dial: opens a link of the lab's raw peer to a node.
        rng: random source of the noise that it sends.
    """

    def __init__(self, dial: Callable[[str], Any], rng: Random) -> None:
        self._dial = dial
        self._rng = rng
        self._links: list[Any] = []

    def visit(self, node: str, claimed: AddrVec | None, ending: str, steps: int) -> None:
        """Dial a node, take some steps of a correct handshake, and end it as ``ending`` says.

        Args:
            node: the node to dial.
            claimed: the addresses to announce; the stranger's own if None.
            ending: ``stop`` sending, ``close``, send ``noise``, ``declare`` a message and not send it, or send
                three quarters of it and ``stall``; any other value is like ``stop``.
            steps: number of steps of the handshake.
        """
        with suppress(ScenarioFailed):
            link = self._dial(node)
            self._links.append(link)
            link.patience_s = _STRANGERS_PATIENCE_S
            if claimed is not None:
                link.pretend(claimed)
            done = 0
            while done < min(steps, len(link.steps)):
                link.steps[done]()
                done += 1
            if ending == "noise":
                link.write(self._rng.randbytes(_NOISE_BYTES))
            elif ending == "declare" and done == len(link.steps):
                link.write(link.message(1, data=bytes(DECLARED_BYTES))[:_DECLARATION_BYTES])
            elif ending == "stall" and done == len(link.steps):
                link.write(link.message(1, data=bytes(DECLARED_BYTES))[: DECLARED_BYTES * 3 // 4])
            elif ending == "close":
                link.hang_up()

    def leave(self) -> None:
        """Close all its links."""
        for link in self._links:
            link.hang_up()
        self._links.clear()
