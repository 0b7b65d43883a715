"""The manager's side towards the monitors: login, rotating keys, manager map, beacons."""

from collections.abc import Callable
from typing import Any

from messenger.cephx.client import METADATA_SERVICES, CephxClient
from messenger.cephx.none import NoneClient
from messenger.cephx.rotating import RotatingKeyring
from messenger.compat import override
from messenger.config import Config
from messenger.denc.entity import EntityName, EntityType
from messenger.driver import Connection
from messenger.messages.message import Message, Payload
from messenger.messages.mgr_digest import MMgrDigest
from messenger.messages.mgrmap import MgrMap, MMgrMap
from messenger.messenger import Messenger
from toolkit.rados.client import Rados


class MonLink(Rados):
    """The RADOS client of a manager: it authenticates as a daemon and follows the manager map.

    Like ceph-mgr, a manager has it in addition to the messenger for daemons. :meth:`connect` creates it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as of the RADOS client
        super().__init__(*args, **options)
        if isinstance(self._auth, CephxClient):
            self._auth.wanted_services |= METADATA_SERVICES
            self._rotating = RotatingKeyring(EntityType.MGR)
        self.mgrmap = MgrMap()
        """The newest manager map; epoch 0 before the first one."""
        self.digest: MMgrDigest | None = None
        """Health and status of the monitors, which they send to the active manager."""
        self.changed: Callable[[], None] = lambda: None
        """Called after each message of the monitors."""

    @override
    def make_messenger(self, auth: CephxClient | NoneClient, config: Config | None) -> Messenger:
        return Messenger(
            EntityName(EntityType.MGR), auth_client=auth, dispatcher=self, config=config, route=self._route
        )

    @property
    def rotating(self) -> RotatingKeyring | None:
        """Service keys of managers; None without authentication."""
        return self._rotating

    @property
    def has_keys(self) -> bool:
        """True if daemons can be authenticated: the rotating keys have arrived, or none are used."""
        return self._rotating is None or bool(self._rotating.secrets)

    def follow(self) -> None:
        """Subscribe to the manager map and to the monitors' digests."""
        self._messenger.endpoint.name = EntityName(EntityType.MGR, self.global_id)
        for what in "mgrmap", "mgrdigest":
            self._monitors.subscribe(what)

    def send(self, message: Message | Payload) -> bool:
        """Send a message to the monitor; returns False if there is no session with one."""
        return self._monitors.send(message)

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> None:
        payload = message.payload
        if isinstance(payload, MMgrMap):
            if payload.mgrmap.epoch > self.mgrmap.epoch:
                self.mgrmap = payload.mgrmap
                self._monitors.got("mgrmap", payload.mgrmap.epoch)
        elif isinstance(payload, MMgrDigest):
            self.digest = payload
        else:
            super().ms_dispatch(connection, message)
        self.changed()
