"""How an application receives messages and session events."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

from messenger.errors import LocalError
from messenger.messages.message import Message
from messenger.session.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from messenger.connection import Connection
    from messenger.errors import Fault


class Dispatcher:
    """Callbacks of a messenger, under Ceph's names; override those that you need.

    They run on the event loop and must return quickly. They may send: a reply from ``ms_dispatch`` takes the
    shortest way. None of them may be a coroutine function; :class:`messenger.Inbox` is the dispatcher for
    coroutines. A dispatcher that answers pings::

        class Answer(Dispatcher):
            def ms_dispatch(self, connection, message):
                if message.type != MessageType.PING:
                    return False
                connection.send(MPing())
    """

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:  # noqa: ARG002 - for others
        """Handle a message that has arrived.

        Returns:
            False if this dispatcher does not handle the message. The next one then gets it, and after the last one
            it counts as unhandled. True to keep the message: its bytes count against
            ``ms_dispatch_throttle_bytes``, and it counts against the throttles of the connection's policy, until
            ``connection.release(message)``. None releases the message on return.
        """
        return False

    def ms_can_fast_dispatch(self, message: Message) -> bool:  # noqa: ARG002 - for others
        """True if :meth:`ms_fast_dispatch` handles this message. Called only if that method is overridden."""
        return False

    def ms_fast_dispatch(self, connection: Connection, message: Message) -> bool | None:
        """Handle a message as it arrives, ahead of the priority queue; returns as :meth:`ms_dispatch`."""

    def ms_handle_fast_connect(self, connection: Connection) -> None:
        """Called before :meth:`ms_handle_connect`; the only event for the messenger's connection to itself."""

    def ms_handle_connect(self, connection: Connection) -> None:
        """A dialled session became ready, either new or reconnected."""

    def ms_handle_fast_accept(self, connection: Connection) -> None:
        """Called before :meth:`ms_handle_accept`."""

    def ms_handle_accept(self, connection: Connection) -> None:
        """An accepted session became ready, either new or reconnected."""

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> bool | None:
        """The session ended and its queue is dropped. Return True to keep the event from the next dispatcher."""

    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:
        """The peer lost the session; sent and queued messages are dropped, and the session starts again."""

    def ms_handle_refused(self, connection: Connection, fault: Fault) -> bool | None:
        """The peer refused the session, which keeps dialling until it is marked down. Returns as a reset."""


_CALLBACKS = tuple(name for name in vars(Dispatcher) if name.startswith("ms_"))


def _check(dispatcher: Dispatcher) -> Dispatcher:
    """Return the dispatcher unchanged if the messenger can call it.

    Raises:
        LocalError: it is not a Dispatcher, or a callback is a coroutine function, which would never be awaited.
    """
    if not isinstance(dispatcher, Dispatcher):
        raise LocalError(f"{dispatcher!r} is no dispatcher: derive its class from messenger.Dispatcher")
    for name in _CALLBACKS:
        if iscoroutinefunction(getattr(dispatcher, name)):
            raise LocalError(
                f"{type(dispatcher).__name__}.{name} is a coroutine function, which a messenger does not await: "
                "make it a function that starts a task, or read from a messenger.Inbox"
            )
    return dispatcher


class Dispatchers:
    """The chain of dispatchers of a messenger, in the order in which they are called.

    An exception of a dispatcher is reported, and the next one is called as if this one had returned nothing.

    Args:
        dispatcher: the first dispatcher.
        escaped: called with the exception of a dispatcher and the connection concerned; it raises the exception
            again if that shall end the messenger or the program.

    Raises:
        LocalError: the messenger cannot call the dispatcher; so do :meth:`replace` and :meth:`add`.
    """

    def __init__(self, dispatcher: Dispatcher, escaped: Callable[[BaseException, Connection], None]) -> None:
        self._all = [_check(dispatcher)]
        self._escaped = escaped
        self._fast: list[Dispatcher] = []
        self.dispatch: Callable[[Connection, Message], bool | None]
        """Dispatches a message; a lone dispatcher is called directly. Returns False if no dispatcher took it."""
        self._arrange()

    def __iter__(self) -> Iterator[Dispatcher]:
        return iter(self._all)

    def replace(self, dispatcher: Dispatcher) -> None:
        """Make ``dispatcher`` the only one."""
        self._all = [_check(dispatcher)]
        self._arrange()

    def add(self, dispatcher: Dispatcher, *, head: bool) -> None:
        """Add a dispatcher before (``head``) or after all others."""
        self._all.insert(0 if head else len(self._all), _check(dispatcher))
        self._arrange()

    def _arrange(self) -> None:
        base = Dispatcher.ms_can_fast_dispatch
        self._fast = [one for one in self._all if getattr(one.ms_can_fast_dispatch, "__func__", None) is not base]
        self.dispatch = self._all[0].ms_dispatch if len(self._all) == 1 else self._in_turn

    @property
    def has_fast(self) -> bool:
        """True if a dispatcher of the chain overrides :meth:`Dispatcher.ms_can_fast_dispatch`."""
        return bool(self._fast)

    def _in_turn(self, connection: Connection, message: Message) -> bool | None:
        unhandled: bool | None = False
        for dispatcher in self._all:
            try:
                taken = dispatcher.ms_dispatch(connection, message)
            except BaseException as error:  # noqa: BLE001 - the application's; the next dispatcher is called
                self._escaped(error, connection)
                unhandled = None
            else:
                if taken is not False:
                    return taken
        return unhandled

    def fast(self, message: Message) -> Callable[[Connection, Message], bool | None] | None:
        """The callback that fast-dispatches this message; None if it is dispatched by priority."""
        for dispatcher in self._fast:
            if dispatcher.ms_can_fast_dispatch(message):
                return dispatcher.ms_fast_dispatch
        return None

    def notify_loopback(self, connection: Connection) -> None:
        """Raise the one event of the messenger's connection to itself, as Ceph does."""
        for dispatcher in self._all:
            self._call(dispatcher.ms_handle_fast_connect, connection)

    def notify(self, connection: Connection, kind: EventKind, fault: Fault | None) -> None:
        """Call the callbacks of a session event; a reset or refusal only until a dispatcher returns True."""
        for dispatcher in self._all:
            if kind is EventKind.CONNECT:
                self._call(dispatcher.ms_handle_fast_connect, connection)
                self._call(dispatcher.ms_handle_connect, connection)
            elif kind is EventKind.ACCEPT:
                self._call(dispatcher.ms_handle_fast_accept, connection)
                self._call(dispatcher.ms_handle_accept, connection)
            elif kind is EventKind.REMOTE_RESET:
                self._call(dispatcher.ms_handle_remote_reset, connection, fault)
            else:
                refused = kind is EventKind.REFUSED
                handler = dispatcher.ms_handle_refused if refused else dispatcher.ms_handle_reset
                if self._call(handler, connection, fault):
                    break

    def _call(self, callback: Callable[..., bool | None], connection: Connection, *about: object) -> bool | None:
        try:
            return callback(connection, *about)
        except BaseException as error:  # noqa: BLE001 - the application's
            self._escaped(error, connection)
            return None
