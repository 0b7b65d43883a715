"""Fronts written out by hand from the definitions of messages that no daemon has sent in the captured traffic."""

from uuid import UUID

import pytest

from messenger.denc.address import BLANK, AddrVec
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import ALL_FEATURES, CLIENT_FEATURES, Feature
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages.mds_cache import (
    BackPointer,
    MDirUpdate,
    MInodeFileCaps,
    MMDSFragmentNotifyAck,
    MMDSOpenIno,
    MMDSOpenInoReply,
)
from messenger.messages.mds_client import FilePath
from messenger.messages.mds_export import MExportCapsAck, MExportDirCancel, MExportDirNotify, MExportDirNotifyAck
from messenger.messages.mds_peer import DirFrag, MetaRequestId
from messenger.messages.mds_recovery import MMDSResolveAck
from messenger.messages.mds_session import MClientQuota, MClientReclaim, MClientReclaimReply, QuotaInfo
from messenger.messages.mgr import MMgrUpdate, ServiceDaemon
from messenger.messages.mgr_digest import HealthCheck, HealthChecks
from messenger.messages.mon_health import (
    EntityInst,
    MMonGetPurgedSnaps,
    MMonGetPurgedSnapsReply,
    MMonHealth,
    MMonHealthChecks,
    MMonMetadata,
    MonDataStats,
    MonStoreStats,
    MTimeCheck,
)
from messenger.messages.nvmeof import (
    AnaStates,
    BeaconListener,
    BeaconNamespace,
    BeaconSubsystem,
    GatewayGroup,
    GatewayGroups,
    GatewayState,
    GatewayStates,
    GatewaySubsystems,
    MNVMeofGwBeacon,
    MNVMeofGwMap,
)
from messenger.messages.osd_daemon import MOSDFull
from messenger.messages.osd_objects import EVersion, ShardedPgId
from messenger.messages.pg import PgId
from messenger.messages.pg_life import MOSDPGCreate, PgCreation
from messenger.messages.pg_log import MOSDPGPCT
from messenger.messages.pg_scrub import MOSDScrub
from messenger.messages.pg_stats import MPGStatsAck
from messenger.messages.ping import MNop, MShutdown
from tests.messenger.messages.test_layouts_by_protocol import FSID_BYTES, PX, PX_7, s

FSID = UUID(FSID_BYTES)
PG = PgId(3, 5)
PG_BYTES = "01" + "0300000000000000" + "05000000" + "ffffffff"
FRAG = DirFrag(0x10, 0x01000000)
FRAG_BYTES = "1000000000000000" + "00000001"
BLANK_BYTES = "01010128000000" + "00" * 8 + "1c000000" + "00" * 28


def u32(value: int) -> str:
    return value.to_bytes(4, "little").hex()


def u64(value: int) -> str:
    return value.to_bytes(8, "little").hex()


def enc(body: str, version: int = 1, compat: int = 1) -> str:
    """An envelope on the wire."""
    return f"{version:02x}{compat:02x}" + u32(len(body) // 2) + body


STORE = enc(u64(9) + u64(8) + u64(7) + u64(6) + u32(5) + u32(4))
FRONTS = [
    (MShutdown(), ""),
    (MNop(7), u32(7)),
    (
        MMonHealth(4, 2, 1, 3, MonDataStats(30, 20, 10, 33, UTime(1, 2), MonStoreStats(9, 8, 7, 6, UTime(5, 4)))),
        u32(4) + u64(2) + u32(1) + u32(3)
        + enc(u64(30) + u64(20) + u64(10) + u32(33) + u32(1) + u32(2) + STORE, 3),
    ),
    (
        MMonHealthChecks(HealthChecks({"MON_DISK_LOW": HealthCheck(1, "low", ["a"], 1)}), map_version=7),
        PX_7 + enc(u32(1) + s("MON_DISK_LOW") + enc("01" + s("low") + u32(1) + s("a") + u64(1), 2)),
    ),
    (MMonMetadata({"arch": "x86_64"}), u32(1) + s("arch") + s("x86_64")),
    (
        MTimeCheck(3, 4, 2, UTime(1), [(EntityInst(EntityName(EntityType.MON, 0), BLANK), 0.5)]),
        u32(3) + u64(4) + u64(2) + u32(1) + u32(0)
        + (u32(1) + "01" + u64(0) + BLANK_BYTES + "000000000000e03f") + u32(0),
    ),
    (MMonGetPurgedSnaps(3, 9), PX + u32(3) + u32(9)),
    (
        MMonGetPurgedSnapsReply(3, 9, {5: {2: {1: 4}}}),
        PX + u32(3) + u32(9) + u32(1) + u32(5) + u32(1) + u64(2) + u32(1) + u64(1) + u64(4),
    ),
    (
        MMgrUpdate("gw", "rgw", ServiceDaemon({"a": "b"}, {"c": "d"})),
        s("gw") + s("rgw") + "01" + u32(1) + s("a") + s("b") + u32(1) + s("c") + s("d"),
    ),
    (MMgrUpdate("gw"), s("gw") + s("") + "00"),
    (MOSDFull(12, 0x20, map_version=7), PX_7 + u32(12) + u32(0x20)),
    (
        MOSDPGCreate(12, {PG: PgCreation(11, PgId(1, 2), -1)}, {PG: UTime(1, 2)}),
        u64(12) + u32(1) + PG_BYTES + enc(u32(11) + "01" + u64(1) + u32(2) + "ffffffff" + "ffffffff")
        + (u32(1) + PG_BYTES + u32(1) + u32(2)),
    ),
    (MOSDScrub(FSID, [PG], True), FSID_BYTES + u32(1) + PG_BYTES + "01" + "00"),
    (MPGStatsAck({PG: (8, 12)}), u32(1) + PG_BYTES + u64(8) + u32(12)),
    (
        MOSDPGPCT(12, 11, ShardedPgId(PG), EVersion(30, 10)),
        u32(12) + u32(11) + enc(PG_BYTES + "ff") + u64(30) + u32(10),
    ),
    (MClientReclaim("id", 0x80000000), s("id") + u32(0x80000000)),
    (MClientReclaimReply(-2, 12, AddrVec((BLANK,))), "feffffff" + u32(12) + "02" + u32(1) + BLANK_BYTES),
    (
        MClientQuota(0x10, UTime(1, 2), 5000, 2, 1, QuotaInfo(0, 100)),
        u64(0x10) + u32(1) + u32(2) + u64(5000) + u64(2) + u64(1) + enc(u64(0) + u64(100)),
    ),
    (
        MMDSResolveAck([(MetaRequestId(8, 4100, 7), b"\1")], [MetaRequestId(8, 4100, 9)]),
        u32(1) + "08" + u64(4100) + u64(7) + u32(1) + "01" + u32(1) + "08" + u64(4100) + u64(9),
    ),
    (
        MDirUpdate(1, FRAG, 2, 5, {0, 3}, FilePath(1, 0x10, "p")),
        u32(1) + FRAG_BYTES + u32(2) + u32(5) + u32(2) + u32(0) + u32(3) + "01" + u64(0x10) + s("p"),
    ),
    (MMDSFragmentNotifyAck(FRAG, -3), FRAG_BYTES + "fd"),
    (
        MMDSOpenIno(0x20, [BackPointer(0x10, "name", 4)]),
        u64(0x20) + u32(1) + enc(u64(0x10) + s("name") + u64(4), 2, 2),
    ),
    (MMDSOpenInoReply(0x20, [], 1, -2), u64(0x20) + u32(0) + u32(1) + "feffffff"),
    (MInodeFileCaps(0x20, 0x55), u64(0x20) + u32(0x55)),
    (MExportDirCancel(FRAG), FRAG_BYTES),
    (
        MExportDirNotify(FRAG, True, (0, -2), (0, 1), [FRAG]),
        FRAG_BYTES + "01" + u32(0) + "feffffff" + u32(0) + u32(1) + u32(1) + FRAG_BYTES,
    ),
    (MExportDirNotifyAck(FRAG, (1, -2)), FRAG_BYTES + u32(1) + "feffffff"),
    (MExportCapsAck(0x20, b"\1"), u64(0x20) + u32(1) + "01"),
    (
        MNVMeofGwBeacon(
            "gw", "p", "g",
            [BeaconSubsystem("nqn", [BeaconListener("ipv4", "h", "4420")], [BeaconNamespace(1, "n")])],
            1, 12,
        ),
        PX + s("gw") + s("p") + s("g") + u64(1)
        + enc(s("nqn") + u32(1) + enc(s("ipv4") + s("h") + s("4420")) + u32(1) + enc(u32(1) + s("n")))
        + (u32(1) + u32(12)),
    ),
    (
        MNVMeofGwMap(
            1, 4,
            GatewayGroups([
                GatewayGroup("p", "g", GatewayStates({
                    "gw": GatewayState(2, 4, GatewaySubsystems({"nqn": AnaStates([(0, 12)])}), 1),
                })),
            ]),
        ),
        u32(1) + u32(4)
        + enc(u32(1) + s("p") + s("g") + enc(
            u32(1) + s("gw") + enc(
                u32(2) + u32(4) + enc(u32(1) + s("nqn") + enc(u32(1) + u32(0) + u32(12)), 2, 2) + u32(1)
            )
        )),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "front"), FRONTS, ids=lambda value: type(value).__name__)
def test_fronts(payload, front):
    encoder = Encoder()
    payload.encode(encoder, ALL_FEATURES)
    image = encoder.getvalue()
    assert image.hex() == front
    assert type(payload).decode(Decoder(image), payload.VERSION, ALL_FEATURES) == payload


def test_gateways_without_the_feature_get_16_states_of_each_subsystem():
    features = CLIENT_FEATURES & ~Feature.NVMEOFHA
    encoder = Encoder()
    GatewaySubsystems({"nqn": AnaStates([(0, 12)])}).encode(encoder, features)
    assert encoder.getvalue().hex() == enc(
        u32(1) + s("nqn") + enc(u32(16) + u32(0) + u32(12) + (u32(1) + u32(0)) * 15)
    )


def test_a_count_of_subsystems_that_do_not_fit_is_refused():
    front = bytes.fromhex(PX + s("gw") + s("p") + s("g") + "ff" * 8)
    with pytest.raises(DecodeError, match="18446744073709551615 subsystems do not fit"):
        MNVMeofGwBeacon.decode(Decoder(front), 1, ALL_FEATURES)
