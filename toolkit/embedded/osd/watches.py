"""Watches of objects, and notifications of the watchers (docs/protocol.md §6.4)."""

import asyncio
import errno
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from messenger.denc.address import EntityAddr
from messenger.denc.codec import Encoder
from messenger.denc.entity import EntityName
from messenger.driver import Connection
from messenger.messages.message import Message
from messenger.messages.osd_client import MWatchNotify, NotifyOp
from messenger.messages.osd_op_data import Watcher
from messenger.messages.osd_operations import OpCode, OsdOp
from messenger.messages.pg import PgId
from toolkit.embedded.osd.store import ObjectKey
from toolkit.embedded.osd.work import OpError, Work, handles

DEFAULT_TIMEOUT_S = 30
"""``osd_client_watch_timeout``: the watch of a client that is disconnected for this long ends."""
_UNWATCH, _WATCH, _RECONNECT, _PING = 0, 3, 5, 7
_MESSAGE_VERSION = 1

Place = tuple[PgId, ObjectKey]
WatcherId = tuple[EntityName, int]
"""Client and cookie."""


@dataclass(slots=True)
class _Watch:
    """One client's watch of an object."""

    connection: Connection
    timeout_s: int
    addr: EntityAddr
    expiry: asyncio.TimerHandle | None = None
    """Ends the watch; set while the client is disconnected."""


@dataclass(slots=True)
class _Notify:
    """A notification that waits for acknowledgements of watchers."""

    place: Place
    number: int
    cookie: int
    notifier: Connection
    gid: int
    payload: bytes
    waiting: set[WatcherId]
    replies: dict[WatcherId, bytes] = field(default_factory=dict)
    missed: set[WatcherId] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None


class Watches:
    """All watches and notifications of one OSD."""

    def __init__(self) -> None:
        self._watches: dict[Place, dict[WatcherId, _Watch]] = {}
        self._notifies: dict[int, _Notify] = {}
        self._numbers = count(1)

    # ---- watchers

    def add(self, place: Place, watcher: WatcherId, connection: Connection, timeout_s: int) -> None:
        """Register a watch, or reconnect it: then pending notifications are sent again."""
        self._forget(place, watcher)
        addr = connection.session.peer_addrs.front
        watch = _Watch(connection, timeout_s or DEFAULT_TIMEOUT_S, addr)
        self._watches.setdefault(place, {})[watcher] = watch
        for notify in self._notifies.values():
            if notify.place == place and watcher in notify.waiting:
                self._send(notify, watcher, watch)

    def has(self, place: Place, watcher: WatcherId) -> bool:
        """True if this client watches with this cookie."""
        return watcher in self._watches.get(place, {})

    def remove(self, place: Place, watcher: WatcherId) -> None:
        """End a watch; notifications no longer wait for it."""
        self._forget(place, watcher)
        for notify in list(self._notifies.values()):
            if notify.place == place and watcher in notify.waiting:
                notify.waiting.discard(watcher)
                self._finish_if_done(notify)

    def _forget(self, place: Place, watcher: WatcherId) -> None:
        watch = self._watches.get(place, {}).pop(watcher, None)
        if watch is not None and watch.expiry is not None:
            watch.expiry.cancel()
        if not self._watches.get(place, True):
            del self._watches[place]

    def watchers(self, place: Place) -> list[Watcher]:
        """Return the watchers of an object."""
        watches = self._watches.get(place, {})
        return [
            Watcher(name, cookie, w.timeout_s, w.addr) for (name, cookie), w in sorted(watches.items(), key=str)
        ]

    def lost(self, connection: Connection) -> None:
        """Handle a lost connection: its watches end unless the client reconnects within their timeout."""
        loop = asyncio.get_running_loop()
        for place, watches in self._watches.items():
            for watcher, watch in watches.items():
                if watch.connection is connection and watch.expiry is None:
                    watch.expiry = loop.call_later(watch.timeout_s, self._expire, place, watcher)

    def _expire(self, place: Place, watcher: WatcherId) -> None:
        for notify in self._notifies.values():
            if notify.place == place and watcher in notify.waiting:
                notify.missed.add(watcher)
        self.remove(place, watcher)

    def removed(self, place: Place) -> None:
        """Handle the removal of an object: send DISCONNECT to its watchers, and end their watches."""
        for (name, cookie), watch in list(self._watches.get(place, {}).items()):
            watch.connection.send(MWatchNotify(_MESSAGE_VERSION, NotifyOp.DISCONNECT, cookie, 0, 0))
            self.remove(place, (name, cookie))

    # ---- notifications

    def next_number(self) -> int:
        """Return the id of a new notification."""
        return next(self._numbers)

    def notify(self, place: Place, number: int, cookie: int, notifier: Connection, gid: int, **what: Any) -> None:  # noqa: ANN401 - two kinds
        """Send a notification to all watchers, and NOTIFY_COMPLETE to the notifier once all replied or timed out.

        Args:
            place: the object.
            number: id of the notification.
            cookie: the notifier's cookie.
            notifier: connection of the notifier.
            gid: global id of the notifier.
            what: ``payload``, and ``timeout_s`` for the replies (0: 30 s).
        """
        watches = self._watches.get(place, {})
        notify = _Notify(place, number, cookie, notifier, gid, what["payload"], set(watches))
        self._notifies[number] = notify
        for watcher, watch in watches.items():
            self._send(notify, watcher, watch)
        timeout_s = what["timeout_s"] or DEFAULT_TIMEOUT_S
        notify.timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out, number)
        self._finish_if_done(notify)

    @staticmethod
    def _send(notify: _Notify, watcher: WatcherId, watch: _Watch) -> None:
        message = MWatchNotify(
            _MESSAGE_VERSION,
            NotifyOp.NOTIFY,
            watcher[1],
            0,
            notify.number,
            notify.payload,
            notifier_gid=notify.gid,
        )
        watch.connection.send(message)

    def acknowledge(self, number: int, watcher: WatcherId, reply: bytes) -> None:
        """Handle a watcher's reply to a notification."""
        notify = self._notifies.get(number)
        if notify is not None and watcher in notify.waiting:
            notify.waiting.remove(watcher)
            notify.replies[watcher] = reply
            self._finish_if_done(notify)

    def _time_out(self, number: int) -> None:
        notify = self._notifies[number]
        notify.missed |= notify.waiting
        notify.waiting.clear()
        self._finish_if_done(notify)

    def _finish_if_done(self, notify: _Notify) -> None:
        if notify.waiting:
            return
        del self._notifies[notify.number]
        if notify.timer is not None:
            notify.timer.cancel()
        encoder = Encoder()
        replies = {(name.num, cookie): reply for (name, cookie), reply in notify.replies.items()}

        def watcher(ids: tuple[int, int]) -> None:
            encoder.u64(ids[0])
            encoder.u64(ids[1])

        encoder.mapping(dict(sorted(replies.items())), watcher, encoder.blob)
        encoder.sequence(sorted((name.num, cookie) for name, cookie in notify.missed), watcher)
        code = -errno.ETIMEDOUT if notify.missed else 0
        payload = MWatchNotify(
            _MESSAGE_VERSION, NotifyOp.NOTIFY_COMPLETE, notify.cookie, 0, notify.number, return_code=code
        )
        notify.notifier.send(Message.of(payload, data=encoder.getvalue()))


@handles(OpCode.WATCH)
def watch(work: Work, op: OsdOp, _given: dict[str, Any]) -> None:
    """Begin, reconnect, check or end a watch; ENOTCONN: it has ended."""
    work.existing()
    client, watches = work.client, work.watches
    place, watcher, kind = (work.pgid, work.key), (client.name, op.args["cookie"]), op.args["op"]
    if kind in (_WATCH, _RECONNECT):
        if kind == _RECONNECT and not watches.has(place, watcher):
            raise OpError(errno.ENOTCONN)
        work.afterwards.append(lambda: watches.add(place, watcher, client.connection, op.args["timeout"]))
    elif kind == _PING:
        if not watches.has(place, watcher):
            raise OpError(errno.ENOTCONN)
    elif kind == _UNWATCH:
        work.afterwards.append(lambda: watches.remove(place, watcher))
    else:
        raise OpError(errno.EINVAL)


@handles(OpCode.LIST_WATCHERS)
def list_watchers(work: Work, _op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return the watchers of the object."""
    work.existing()
    encoder = Encoder()
    with encoder.versioned(1, 1):
        encoder.sequence(work.watches.watchers((work.pgid, work.key)), lambda each: each.encode(encoder))
    return encoder.getvalue()


@handles(OpCode.NOTIFY)
def notify(work: Work, op: OsdOp, given: dict[str, Any]) -> bytes:
    """Notify the watchers; the reply has the id of the notification."""
    work.existing()
    watches, client, number = work.watches, work.client, work.watches.next_number()
    place = (work.pgid, work.key)
    work.afterwards.append(
        lambda: watches.notify(
            place,
            number,
            op.args["cookie"],
            client.connection,
            client.name.num,
            payload=given["payload"],
            timeout_s=given["timeout_s"],
        )
    )
    return number.to_bytes(8, "little")


@handles(OpCode.NOTIFY_ACK)
def notify_ack(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Acknowledge a notification."""
    work.watches.acknowledge(given["notify_id"], (work.client.name, given["cookie"]), given["reply"])
