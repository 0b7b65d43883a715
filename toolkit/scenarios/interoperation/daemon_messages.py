"""IX: messages of daemons of other releases, by their types and versions."""

from functools import partial
from struct import pack

from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, breaks
from toolkit.lab.ways import ways
from toolkit.scenarios.interoperation import IX
from toolkit.scenarios.shared.by_hand import hang_up, opened

_WAYS = ways("v2-crc", "v2-crc-w2", "v2-secure", "v2-compressed", "v1", "v1-w2")
_NAMES = {
    42: "osd_op",
    43: "osd_op_reply",
    93: "replica_scrub",
    94: "pg_scan",
    95: "pg_backfill",
    96: "backfill_remove",
    112: "osd_repop",
    113: "osd_repop_reply",
    130: "pg_notify2",
    133: "pg_lease",
    134: "pg_lease_ack",
}
"""Types of messages among OSDs and their clients, with their names in Ceph's logs (docs/protocol.md §6.1)."""
_MUCH_NEWER = 99


@IX.scenario("IX-07", "newer_message_of_an_osd", priority=2, ways=_WAYS)
def newer_message_of_an_osd(lab: Lab) -> None:
    """A message of an OSD that needs a newer decoder breaks the link, with a fault that names its type.

    An OSD of a later release sends messages that this release has too, each with a compat_version that only the
    later one knows. None is delivered. The fault of each link has the name of the type as Ceph's logs have it, and
    so does the record of the frame.
    """
    peer, link = opened(lab, ACCEPTOR)
    for number, name in _NAMES.items():
        wrong = link.message(1, type_=number, version=_MUCH_NEWER, compat_version=_MUCH_NEWER)
        breaks(lab, link, partial(link.write, wrong), "BAD_MESSAGE")
        detail = lab.last_fault("a")
        lab.require(f"{name} needs a decoder of version {_MUCH_NEWER}" in detail, f"type {number}: {detail}")
        seen = lab.messages("a", "rx")[-1]["fields"]["name"]
        lab.require(seen == name, f"the history has type {number} as {seen}")
        link = peer.dial("a").handshake()
    lab.require(lab.delivered("b", "a") == 0, "a message that cannot be decoded was delivered")
    hang_up(lab, link)


_MDS_BEACON = 100
_STANDBY_REPLAY, _REJOIN = -8, 6
"""States of an MDS daemon."""


def _beacon(state: int) -> bytes:
    """The front of an MMDSBeacon of version 6, as an MDS of Nautilus writes it."""
    paxos = pack("<QhQ", 7, -1, 0)
    who = bytes(range(16)) + pack("<Qi", 4242, state) + pack("<QI1s", 9, 1, b"a")
    standby_for = pack("<iI", -1, 0)
    compat = pack("<QI", 1, 0) * 3
    health = pack("<BBII", 1, 1, 4, 0)
    return paxos + who + standby_for + compat + health + pack("<Qi", 0x3FFDDFF8FFECFFFF, -1)


@IX.scenario("IX-08", "beacon_of_an_older_mds", priority=2, ways=_WAYS)
def beacon_of_an_older_mds(lab: Lab) -> None:
    """The beacon of an MDS of Nautilus is delivered, an older one or one cut short breaks the link.

    MMDSBeacon has had version 6 since Nautilus, without the fields that later releases append. Two of them are
    delivered. One of version 5 has another layout, and one without its last byte is no beacon: both break the
    link.
    """
    peer, link = opened(lab, ACCEPTOR)
    whole = {"type_": _MDS_BEACON, "version": 6, "compat_version": 6}
    for seq, state in enumerate((_STANDBY_REPLAY, _REJOIN), 1):
        link.write(link.message(seq, **whole, front=_beacon(state)))
    lab.expect_delivered("b", "a", 2)
    got = [(record["type"], record["version"], record["size"]) for record in lab.records("a", "deliver")]
    lab.require(got == [(_MDS_BEACON, 6, len(_beacon(_REJOIN)))] * 2, f"{got} were delivered")
    old = link.message(3, **(whole | {"version": 5, "compat_version": 5}), front=_beacon(_REJOIN))
    breaks(lab, link, partial(link.write, old), "BAD_MESSAGE")
    lab.require("MMDSBeacon of version 5" in lab.last_fault("a"), f"why: {lab.last_fault('a')}")
    link = peer.dial("a").handshake()
    short = link.message(1, **whole, front=_beacon(_REJOIN)[:-1])
    breaks(lab, link, partial(link.write, short), "BAD_MESSAGE")
    lab.require(lab.delivered("b", "a") == 2, "a beacon that cannot be decoded was delivered")
