"""The maps of an embedded cluster, and the increments between OSD maps."""

import time
from collections.abc import Mapping
from dataclasses import replace
from struct import pack, unpack
from typing import Any
from uuid import UUID

from messenger.denc.address import AddrVec
from messenger.denc.utime import UTime
from messenger.messages.mgrmap import MgrMap
from messenger.messages.monmap import MonInfo, MonMap
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_info import Osd, OsdState
from messenger.messages.osdmap import MapFlag, OSDMap
from messenger.messages.osdmap_incremental import Incremental
from messenger.messages.pool import Pool, PoolFlag
from toolkit.embedded.mon.crush import WEIGHT_ONE, encoded_crush, new_crush
from toolkit.rados.placement import Placement

PACIFIC = 16
_LUMINOUS = 12
_FIRST_FLAGS = MapFlag.SORTBITWISE | MapFlag.RECOVERY_DELETES | MapFlag.PURGED_SNAPDIRS | MapFlag.PGLOG_HARDLIMIT
_KEPT_INCREMENTS = 500
_MON_FEATURES = 0xFE
"""Persistent features of the monitor map of a Pacific quorum: Kraken to Pacific."""
_MOST_PER_MESSAGE = 40
"""Maximum number of maps in one message, as in ``osd_map_message_max``."""


def now() -> UTime:
    """Return the current time, for stamps in maps."""
    return UTime.from_seconds(time.time())


def _on_the_wire(ratio: float) -> float:
    """Round a ratio to single precision, in which maps encode it."""
    return float(unpack("<f", pack("<f", ratio))[0])


class Maps:
    """Monitor map, manager map, and OSD map with its latest increments.

    Args:
        fsid: the cluster's fsid.
        monitors: address vectors by name.
        hosts: host names by OSD id.
    """

    def __init__(self, fsid: UUID, monitors: Mapping[str, AddrVec], hosts: Mapping[int, str]) -> None:
        created = now()
        self.fsid = fsid
        self.hosts = dict(hosts)
        self.monmap = MonMap(
            fsid,
            epoch=1,
            last_changed=created,
            created=created,
            persistent_features=_MON_FEATURES,
            mon_info={name: MonInfo(name, addrs) for name, addrs in monitors.items()},
            ranks=list(monitors),
            min_mon_release=PACIFIC,
        )
        self.mgrmap = MgrMap(epoch=1)
        self.crush = new_crush(hosts)
        self.osdmap = OSDMap(
            fsid=fsid,
            epoch=1,
            created=created,
            modified=created,
            pools={},
            pool_names={},
            pool_max=0,
            flags=_FIRST_FLAGS,
            osds=[Osd(state=OsdState.EXISTS | OsdState.NEW) for _ in range(max(hosts, default=-1) + 1)],
            crush=encoded_crush(self.crush),
            nearfull_ratio=_on_the_wire(0.85),
            full_ratio=_on_the_wire(0.95),
            backfillfull_ratio=_on_the_wire(0.9),
            require_min_compat_client=_LUMINOUS,
            require_osd_release=PACIFIC,
            last_up_change=created,
            last_in_change=created,
        )
        self._increments: dict[int, Incremental] = {}
        self._placement: Placement | None = None

    @property
    def placement(self) -> Placement:
        """Placement of objects by the newest OSD map."""
        if self._placement is None or self._placement.osdmap is not self.osdmap:
            self._placement = Placement(self.osdmap, self._placement)
        return self._placement

    @property
    def oldest_epoch(self) -> int:
        """The oldest epoch that has an increment; the newest epoch if there are no increments."""
        return min(self._increments, default=self.osdmap.epoch)

    # ---- changes of the OSD map

    def change(self, **changes: Any) -> None:  # noqa: ANN401 - fields of an increment
        """Make the next epoch with these changes, given as fields of :class:`Incremental`."""
        epoch = self.osdmap.epoch + 1
        increment = Incremental(self.fsid, epoch, modified=now(), **changes)
        self.osdmap = self.osdmap.apply(increment)
        self._increments[epoch] = increment
        self._increments.pop(epoch - _KEPT_INCREMENTS, None)

    def mark_up(self, osd: int, addrs: AddrVec) -> None:
        """Mark an OSD up at these addresses; a new OSD is also marked in."""
        # clients look up each such OSD in all four fields, and since Reef they abort if one lacks it
        kinds = ("new_up_client", "new_up_cluster", "new_hb_back_up", "new_hb_front_up")
        changes: dict[str, Any] = {kind: {osd: addrs} for kind in kinds}
        if self.osdmap.osds[osd].state & OsdState.NEW:
            changes |= {"new_weight": {osd: WEIGHT_ONE}, "new_last_in_change": now()}
        self.change(new_last_up_change=now(), **changes)

    def mark_down(self, osd: int) -> None:
        """Mark an OSD down; its placement groups stay on it."""
        self.change(new_state={osd: OsdState.UP}, new_last_up_change=now())

    def mark_in(self, osd: int, *, inside: bool) -> None:
        """Mark an OSD in or out."""
        self.change(new_weight={osd: WEIGHT_ONE if inside else 0}, new_last_in_change=now())

    def create_pool(self, name: str, pg_num: int) -> int:
        """Create a pool with one copy of each object; returns its id."""
        pool_id = self.osdmap.pool_max + 1
        epoch = self.osdmap.epoch + 1
        pool = Pool(
            size=1,
            min_size=1,
            pg_num=pg_num,
            pgp_num=pg_num,
            pg_num_target=pg_num,
            pgp_num_target=pg_num,
            pg_num_pending=pg_num,
            flags=PoolFlag.HASHPSPOOL,
            last_change=epoch,
            create_time=now(),
        )
        self.change(new_pools={pool_id: pool}, new_pool_names={pool_id: name}, new_pool_max=pool_id)
        return pool_id

    def change_pool(self, pool_id: int, **changes: Any) -> None:  # noqa: ANN401 - fields of a pool
        """Change fields of a pool."""
        changes["last_change"] = self.osdmap.epoch + 1
        self.change(new_pools={pool_id: replace(self.osdmap.pools[pool_id], **changes)})

    def pool_id(self, name: str) -> int | None:
        """Return the id of a pool; None if no pool has this name."""
        return next((number for number, known in self.osdmap.pool_names.items() if known == name), None)

    # ---- messages

    def osdmap_message(self, start: int, features: int) -> MOSDMap | None:
        """Return the maps for a subscriber from epoch ``start`` on; None if it has the newest.

        For epoch 0, and for epochs older than the increments, the message has the newest full map; otherwise it
        has the increments from ``start`` on.
        """
        newest = self.osdmap.epoch
        if start > newest:
            return None
        message = MOSDMap(self.fsid, oldest=1, newest=newest)
        if start < self.oldest_epoch or start < 2:  # no increment leads to the first map
            message.maps[newest] = self.osdmap.encode(features)
            return message
        for epoch in range(start, min(newest, start + _MOST_PER_MESSAGE - 1) + 1):
            message.incremental_maps[epoch] = self._increments[epoch].encode(features)
        return message
