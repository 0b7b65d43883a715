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
    """Callbacks of a messenger, under Ceph's names; override those of interest.

    They run inside the event loop: return quickly. Sending from inside one is the quickest way to reply. None of
    them is a coroutine function: :class:`messenger.Inbox` is the dispatcher for coroutines.
    """

    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:  # noqa: ARG002 - for others
        """A message has arrived.

        Return True to keep it: its bytes count against ``ms_dispatch_throttle_bytes`` (and it against the
        throttles of the connection's policy) until ``connection.release(message)``. Return False if it is none
        of yours: the next dispatcher is asked, and without one it is unhandled. Otherwise it counts as done on
        return.
        """
        return False

    def ms_can_fast_dispatch(self, message: Message) -> bool:  # noqa: ARG002 - for others
        """True if :meth:`ms_fast_dispatch` takes this message. Called only if that is overridden."""
        return False

    def ms_fast_dispatch(self, connection: Connection, message: Message) -> bool | None:
        """A message has arrived, and is not queued by priority; see :meth:`ms_dispatch` for what to return."""

    def ms_handle_fast_connect(self, connection: Connection) -> None:
        """As :meth:`ms_handle_connect`, and for the connection to oneself the only word of it."""

    def ms_handle_connect(self, connection: Connection) -> None:
        """A session this side dialled is open, for the first time or again."""

    def ms_handle_fast_accept(self, connection: Connection) -> None:
        """As :meth:`ms_handle_accept`."""

    def ms_handle_accept(self, connection: Connection) -> None:
        """An accepted session became ready, either new or reconnected."""

    def ms_handle_reset(self, connection: Connection, fault: Fault) -> bool | None:
        """The session ended; what was queued is gone. Return True to keep it from the next dispatcher."""

    def ms_handle_remote_reset(self, connection: Connection, fault: Fault) -> None:
        """The peer lost its state; what was sent and queued is gone, the session goes on."""

    def ms_handle_refused(self, connection: Connection, fault: Fault) -> bool | None:
        """The peer refused; the session keeps trying until it is marked down. Return True as with a reset."""


_CALLBACKS = tuple(name for name in vars(Dispatcher) if name.startswith("ms_"))


def _check(dispatcher: Dispatcher) -> Dispatcher:
    """The dispatcher, if the messenger can call it.

    Raises:
        LocalError: it is no Dispatcher, or a callback is a coroutine function, which would never be awaited.
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
    """The dispatchers of a messenger, in the order in which they are asked.

    An exception of one of them is reported, and the others are asked as if it had returned nothing.

    Args:
        dispatcher: the first one.
        escaped: is called with an exception of a dispatcher and the connection that the callback was about; raises
            it again if it is to end the messenger or the program.

    Raises:
        LocalError: the messenger could not call it; so do :meth:`replace` and :meth:`add`.
    """

    def __init__(self, dispatcher: Dispatcher, escaped: Callable[[BaseException, Connection], None]) -> None:
        self._all = [_check(dispatcher)]
        self._escaped = escaped
        self._fast: list[Dispatcher] = []
        self.dispatch: Callable[[Connection, Message], bool | None]
        """Receives each message; a lone dispatcher directly. Returns False if no dispatcher took the message."""
        self._arrange()

    def __iter__(self) -> Iterator[Dispatcher]:
        return iter(self._all)

    def replace(self, dispatcher: Dispatcher) -> None:
        """Ask this one alone."""
        self._all = [_check(dispatcher)]
        self._arrange()

    def add(self, dispatcher: Dispatcher, *, head: bool) -> None:
        """Ask this one too, before or after all others."""
        self._all.insert(0 if head else len(self._all), _check(dispatcher))
        self._arrange()

    def _arrange(self) -> None:
        base = Dispatcher.ms_can_fast_dispatch
        self._fast = [one for one in self._all if getattr(one.ms_can_fast_dispatch, "__func__", None) is not base]
        self.dispatch = self._all[0].ms_dispatch if len(self._all) == 1 else self._in_turn

    @property
    def has_fast(self) -> bool:
        """True if a dispatcher of the chain dispatches fast."""
        return bool(self._fast)

    def _in_turn(self, connection: Connection, message: Message) -> bool | None:
        unhandled: bool | None = False
        for dispatcher in self._all:
            try:
                taken = dispatcher.ms_dispatch(connection, message)
            except BaseException as error:  # noqa: BLE001 - the application's; the next dispatcher is asked
                self._escaped(error, connection)
                unhandled = None
            else:
                if taken is not False:
                    return taken
        return unhandled

    def fast(self, message: Message) -> Callable[[Connection, Message], bool | None] | None:
        """What takes this message at once; None if it goes the usual way."""
        for dispatcher in self._fast:
            if dispatcher.ms_can_fast_dispatch(message):
                return dispatcher.ms_fast_dispatch
        return None

    def tell_loopback(self, connection: Connection) -> None:
        """The connection to oneself exists; as in Ceph there is no other event about it."""
        for dispatcher in self._all:
            self._call(dispatcher.ms_handle_fast_connect, connection)

    def tell(self, connection: Connection, kind: EventKind, fault: Fault | None) -> None:
        """Call the callbacks of a session event, of a reset or refusal only until a dispatcher takes it."""
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
