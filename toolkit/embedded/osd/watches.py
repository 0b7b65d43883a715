"""Watches of objects, and notifications of the watchers (docs/protocol.md §6.4)."""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from messenger.denc.address import AddrVec, EntityAddr
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
"""``osd_client_watch_timeout``: the watch of a client that sends no ping for this long ends, connected or not."""
MOST_HELD_BYTES = 64 << 20
"""Most memory for notifications that wait for acknowledgements, with the replies that have come."""
NOTIFICATION_BYTES = 1 << 10
"""Memory for a notification in addition to its payload."""
MOST_WATCHES = 1 << 16
"""Most watches on one OSD, those of disconnected clients among them."""
MOST_WATCHES_OF_CLIENT = 1 << 14
"""Most watches of one client on one OSD."""
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
    """Ends the watch, unless a ping comes before."""


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
    held_bytes: int = 0
    timer: asyncio.TimerHandle | None = None


class Watches:
    """All watches and notifications of one OSD."""

    def __init__(self) -> None:
        self._watches: dict[Place, dict[WatcherId, _Watch]] = {}
        self._of_clients: Counter[EntityName] = Counter()
        self._count = 0
        self._notifies: dict[int, _Notify] = {}
        self._held_bytes = 0
        self._numbers = count(1)

    # ---- watchers

    def add(self, place: Place, watcher: WatcherId, connection: Connection, timeout_s: int) -> None:
        """Register a watch, or reconnect it: then pending notifications are sent again."""
        self._forget(place, watcher)
        addr = connection.session.peer_addrs.front
        watch = _Watch(connection, timeout_s or DEFAULT_TIMEOUT_S, addr)
        self._watches.setdefault(place, {})[watcher] = watch
        self._of_clients[watcher[0]] += 1
        self._count += 1
        self._await_ping(place, watcher, watch)
        for notify in self._notifies.values():
            if notify.place == place and watcher in notify.waiting:
                self._send(notify, watcher, watch)

    def has(self, place: Place, watcher: WatcherId) -> bool:
        """True if this client watches with this cookie."""
        return watcher in self._watches.get(place, {})

    def may_watch(self, client: EntityName, requested: int) -> bool:
        """True if the client may have another watch.

        Args:
            client: the client.
            requested: watches that its present request will add.
        """
        return (
            self._of_clients[client] + requested < MOST_WATCHES_OF_CLIENT
            and self._count + requested < MOST_WATCHES
        )

    def ping(self, place: Place, watcher: WatcherId) -> None:
        """Handle a ping of a watcher: its watch goes on for another timeout."""
        if (watch := self._watches.get(place, {}).get(watcher)) is not None:
            self._await_ping(place, watcher, watch)

    def _await_ping(self, place: Place, watcher: WatcherId, watch: _Watch) -> None:
        if watch.expiry is not None:
            watch.expiry.cancel()
        watch.expiry = asyncio.get_running_loop().call_later(watch.timeout_s, self._expire, place, watcher)

    def remove(self, place: Place, watcher: WatcherId) -> None:
        """End a watch; notifications no longer wait for it."""
        self._forget(place, watcher)
        for notify in list(self._notifies.values()):
            if notify.place == place and watcher in notify.waiting:
                notify.waiting.discard(watcher)
                self._finish_if_done(notify)

    def _forget(self, place: Place, watcher: WatcherId) -> None:
        watch = self._watches.get(place, {}).pop(watcher, None)
        if watch is None:
            return
        if watch.expiry is not None:
            watch.expiry.cancel()
        self._count -= 1
        self._of_clients[watcher[0]] -= 1
        if not self._of_clients[watcher[0]]:
            del self._of_clients[watcher[0]]
        if not self._watches.get(place, True):
            del self._watches[place]

    def end_where(self, ends: Callable[[AddrVec], bool]) -> None:
        """End the watches of the clients whose addresses fulfil a condition."""
        for place, watches in list(self._watches.items()):
            for watcher, watch in list(watches.items()):
                if ends(AddrVec((watch.addr,))):
                    self.remove(place, watcher)

    def watchers(self, place: Place) -> list[Watcher]:
        """Return the watchers of an object."""
        watches = self._watches.get(place, {})
        return [
            Watcher(name, cookie, w.timeout_s, w.addr) for (name, cookie), w in sorted(watches.items(), key=str)
        ]

    def all(self) -> list[tuple[Place, Watcher]]:
        """Return all watchers, each with its object."""
        return [(place, watcher) for place in self._watches for watcher in self.watchers(place)]

    def _expire(self, place: Place, watcher: WatcherId) -> None:
        for notify in self._notifies.values():
            if notify.place == place and watcher in notify.waiting:
                notify.missed.add(watcher)
        self._disconnect(place, watcher)

    def removed(self, place: Place) -> None:
        """Handle the removal of an object: send DISCONNECT to its watchers, and end their watches."""
        for watcher in list(self._watches.get(place, {})):
            self._disconnect(place, watcher)

    def _disconnect(self, place: Place, watcher: WatcherId) -> None:
        message = MWatchNotify(_MESSAGE_VERSION, NotifyOp.DISCONNECT, watcher[1], 0, 0)
        self._watches[place][watcher].connection.send(message)
        self.remove(place, watcher)

    # ---- notifications

    def next_number(self) -> int:
        """Return the id of a new notification."""
        return next(self._numbers)

    def has_room(self, size_bytes: int) -> bool:
        """True if a payload or reply of that size may wait, too."""
        return self._held_bytes + size_bytes + NOTIFICATION_BYTES <= MOST_HELD_BYTES

    def _hold(self, notify: _Notify, size_bytes: int) -> None:
        notify.held_bytes += size_bytes + NOTIFICATION_BYTES
        self._held_bytes += size_bytes + NOTIFICATION_BYTES

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
        self._hold(notify, len(notify.payload))
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
        """Handle a watcher's reply to a notification; a reply for which there is no room counts as missing."""
        notify = self._notifies.get(number)
        if notify is not None and watcher in notify.waiting:
            notify.waiting.remove(watcher)
            if self.has_room(len(reply)):
                notify.replies[watcher] = reply
                self._hold(notify, len(reply))
            else:
                notify.missed.add(watcher)
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
        self._held_bytes -= notify.held_bytes
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
    """Begin, reconnect, check or end a watch. ENOTCONN: it has ended; EBUSY: there are too many."""
    work.existing()
    client, watches = work.client, work.watches
    place, watcher, kind = (work.pgid, work.key), (client.name, op.args["cookie"]), op.args["op"]
    if kind in (_WATCH, _RECONNECT):
        if kind == _RECONNECT and not watches.has(place, watcher):
            raise OpError(errno.ENOTCONN)
        if not watches.has(place, watcher) and not watches.may_watch(client.name, len(work.afterwards)):
            raise OpError(errno.EBUSY)
        work.afterwards.append(lambda: watches.add(place, watcher, client.connection, op.args["timeout"]))
    elif kind == _PING:
        if not watches.has(place, watcher):
            raise OpError(errno.ENOTCONN)
        work.afterwards.append(lambda: watches.ping(place, watcher))
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
    """Notify the watchers; the reply has the id of the notification. EBUSY: too many others wait for watchers."""
    work.existing()
    if not work.watches.has_room(len(given["payload"])):
        raise OpError(errno.EBUSY)
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
