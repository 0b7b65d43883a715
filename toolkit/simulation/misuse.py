"""A careless application beside the recording one of a node, and a stranger that sends false frames."""

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
"""More than a message's head takes in either protocol, and much less than the message."""
_NOISE_BYTES = 300
_STRANGERS_PATIENCE_S = 1.0
RELEASED = "operation forbidden on released memoryview object"
"""End of the error text of a message whose buffer was released; the words are those of Python."""


class CarelessError(Exception):
    """What a careless application raises."""


@dataclass(slots=True)
class _Reaction:
    due: int
    deed: str


class CarelessApp(Dispatcher):
    """Sits before the node's own application, takes nothing, and misuses the messenger when it is asked to.

    Args:
        app: the node's application, whose books it keeps right.
    """

    def __init__(self, app: "NodeApp") -> None:
        self._app = app
        self._reactions: dict[str, list[_Reaction]] = {}

    def react(self, callback: str, nth: int, deed: str) -> None:
        """Do something in the ``nth`` call of a callback from now on."""
        self._reactions.setdefault(callback, []).append(_Reaction(nth, deed))

    def forget(self) -> None:
        """Be careful from now on."""
        self._reactions.clear()

    # ---- callbacks

    def ms_dispatch(self, connection: Connection, message: Message) -> bool:
        """Take nothing."""
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
                getattr(self, f"_{reaction.deed}")(connection, message)

    # ---- what it does then

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
        """A message that it does not hold, unless the node's own application takes it."""
        if message is not None and not self._app.keeps:
            with suppress(LocalError):
                connection.release(message)


def take_back(app: "NodeApp", peer: str, part: int) -> None:
    """Send a message, and release a buffer under it before, or after, it is written."""
    buffer = memoryview(b"taken back")
    app.send_parts(peer, *(buffer if at == part else b"" for at in range(_PARTS)))
    buffer.release()


class Stranger:
    """A peer that no node expects, on the network of a lab.

    Args:
        dial: a new link of the lab's raw peer to a node.
        rng: decides what noise it makes.
    """

    def __init__(self, dial: Callable[[str], Any], rng: Random) -> None:
        self._dial = dial
        self._rng = rng
        self._links: list[Any] = []

    def visit(self, node: str, claimed: AddrVec | None, ending: str, steps: int) -> None:
        """Dial a node, take so many proper steps, and end in one of these ways.

        Args:
            node: whom to dial.
            claimed: the addresses that it gives as its own; its own if None.
            ending: ``stop`` and say no more, ``close``, make ``noise``, or ``declare`` a message and not send it,
                or send three quarters of it and ``stall``; anything else stops as well.
            steps: of the handshake.
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
        """Hang up everywhere."""
        for link in self._links:
            link.hang_up()
        self._links.clear()
