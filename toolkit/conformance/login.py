"""Authentication of the peer of a run: method none, a key, tickets from a monitor, or its own tickets.

See docs/protocol.md §5.5, §5.7 and §5.9.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthClient
from messenger.cephx.keyring import Keyring
from messenger.cephx.minting import MintingClient
from messenger.cephx.none import NoneClient
from messenger.cephx.structures import NAMED_KEY_SECRET_ID
from messenger.cephx.tickets import ServiceKey
from messenger.denc.address import EntityAddr
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import FaultError, LocalError
from messenger.files import read_text
from messenger.keylog import MOST_KEY_LOG_BYTES, ServiceSecret, parse_key_log
from messenger.messages.osdmap import OSDMap
from toolkit.errors import Unsupported
from toolkit.probe.monitor import MonitorSession

_UNKNOWN_NUMBER = -1


@dataclass(frozen=True, slots=True)
class Login:
    """The identity and the credentials of the peer, as the command line gives them."""

    name: AuthName
    keyring: Path | None = None
    key_log: Path | None = None
    """Key log with service keys, from which the peer makes its own tickets."""
    monitor: EntityAddr | None = None
    """Monitor that issues tickets for a target that is not a monitor itself."""
    timeout_s: float = 10.0

    @property
    def entity(self) -> EntityName:
        """The entity name that the peer sends in handshakes."""
        number = int(self.name.id) if self.name.id.isdecimal() else _UNKNOWN_NUMBER
        return EntityName(self.name.type, number)

    def resolve(self, target: EntityAddr, target_type: EntityType) -> tuple[AuthClient | None, EntityAddr]:
        """Return the credentials for a target, and its address with the nonce that the OSD map has for it.

        The credentials are None if neither keyring nor key log was given: method none remains.

        Raises:
            LocalError: a file cannot be read, or lacks the key.
            Unsupported: the monitor cannot be reached, or refuses the key.
        """
        if self.key_log is not None:
            return self._minting(self.key_log, target_type), target
        if self.keyring is None:
            return None, target
        key = Keyring.load(self.keyring).key(self.name)
        if self.name == AuthName(EntityType.MON, ""):
            service_keys = {EntityType.MON: ServiceKey(NAMED_KEY_SECRET_ID, key)}
            return MintingClient(self.name, 0, service_keys), target
        client = CephxClient(self.name, key)
        if target_type is EntityType.MON:
            return client, target
        if self.monitor is None:
            raise LocalError(
                f"{target} is not a monitor, so {self.name} needs a ticket: name a monitor with --mon,"
                " or service keys with --key-log"
            )
        return client, asyncio.run(_collect_tickets(client, self.monitor, target, self.timeout_s))

    def _minting(self, key_log: Path, target_type: EntityType) -> AuthClient:
        entries = parse_key_log(read_text(key_log, MOST_KEY_LOG_BYTES, "key log"), str(key_log))
        for entry in entries:
            if isinstance(entry, ServiceSecret) and entry.service is target_type:
                service_keys = {target_type: ServiceKey(entry.secret_id, entry.key)}
                return MintingClient(self.name, max(self.entity.num, 0), service_keys)
        raise LocalError(f"{key_log} has no service key of {target_type.label}")


def without_key(name: AuthName, entity: EntityName) -> AuthClient:
    """Return the credentials of method none."""
    return NoneClient(name, max(entity.num, 0))


async def _collect_tickets(
    client: CephxClient, monitor: EntityAddr, target: EntityAddr, timeout_s: float
) -> EntityAddr:
    """Log in to a monitor, and return the target's address with its nonce from the OSD map, if it is listed."""
    try:
        async with MonitorSession(monitor, client, timeout_s=timeout_s) as session:
            if target.nonce:
                return target
            osdmap = OSDMap.decode(_newest((await session.osdmap()).maps))
    except (FaultError, TimeoutError) as error:
        raise Unsupported(f"--mon {monitor}: {error}") from None
    for osd in osdmap.osds:
        for addrs in (osd.client_addrs, osd.cluster_addrs, osd.hb_front_addrs, osd.hb_back_addrs):
            for addr in addrs:
                if addr.with_nonce(0) == target:
                    return addr
    return target


def _newest(maps: dict[int, bytes]) -> bytes:
    if not maps:
        raise TimeoutError("it sent no OSD map")
    return maps[max(maps)]
