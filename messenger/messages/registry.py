"""The payload class of each message type, whose module is imported when the first such message arrives."""

from collections.abc import Iterator, Mapping

import messenger.messages
from messenger.compat import override
from messenger.denc.codec import Decoder
from messenger.errors import DecodeError
from messenger.messages.message import Message, Payload
from messenger.messages.types import MessageType, message_name

_NAMES: dict[int, str] = {
    MessageType.AUTH: "MAuth",
    MessageType.AUTH_REPLY: "MAuthReply",
    MessageType.COMMAND: "MCommand",
    MessageType.COMMAND_REPLY: "MCommandReply",
    MessageType.MGR_COMMAND: "MMgrCommand",
    MessageType.MGR_COMMAND_REPLY: "MMgrCommandReply",
    MessageType.CONFIG: "MConfig",
    MessageType.GET_CONFIG: "MGetConfig",
    MessageType.KV_DATA: "MKVData",
    MessageType.LOG: "MLog",
    MessageType.LOGACK: "MLogAck",
    MessageType.CLIENT_REPLY: "MClientReply",
    MessageType.CLIENT_REQUEST: "MClientRequest",
    MessageType.CLIENT_SESSION: "MClientSession",
    MessageType.FS_MAP: "MFSMap",
    MessageType.FS_MAP_USER: "MFSMapUser",
    MessageType.MDS_BEACON: "MMDSBeacon",
    MessageType.MDS_MAP: "MMDSMap",
    MessageType.MGR_BEACON: "MMgrBeacon",
    MessageType.MGR_CLOSE: "MMgrClose",
    MessageType.MGR_CONFIGURE: "MMgrConfigure",
    MessageType.MGR_DIGEST: "MMgrDigest",
    MessageType.MON_MGR_REPORT: "MMonMgrReport",
    MessageType.PGSTATS: "MPGStats",
    MessageType.MGR_OPEN: "MMgrOpen",
    MessageType.MGR_REPORT: "MMgrReport",
    MessageType.MGR_MAP: "MMgrMap",
    MessageType.SERVICE_MAP: "MServiceMap",
    MessageType.MON_COMMAND: "MMonCommand",
    MessageType.MON_COMMAND_ACK: "MMonCommandAck",
    MessageType.MON_GET_MAP: "MMonGetMap",
    MessageType.MON_GET_OSDMAP: "MMonGetOSDMap",
    MessageType.MON_GET_VERSION: "MMonGetVersion",
    MessageType.MON_GET_VERSION_REPLY: "MMonGetVersionReply",
    MessageType.MON_SUBSCRIBE: "MMonSubscribe",
    MessageType.MON_SUBSCRIBE_ACK: "MMonSubscribeAck",
    MessageType.FORWARD: "MForward",
    MessageType.MON_PING: "MMonPing",
    MessageType.MON_USED_PENDING_KEYS: "MMonUsedPendingKeys",
    MessageType.ROUTE: "MRoute",
    MessageType.MON_MAP: "MMonMap",
    MessageType.OSD_ALIVE: "MOSDAlive",
    MessageType.OSD_BEACON: "MOSDBeacon",
    MessageType.OSD_BOOT: "MOSDBoot",
    MessageType.OSD_PGTEMP: "MOSDPGTemp",
    MessageType.OSD_PG_INFO: "MOSDPGInfo",
    MessageType.OSD_PG_INFO2: "MOSDPGInfo2",
    MessageType.OSD_PG_LEASE: "MOSDPGLease",
    MessageType.OSD_PG_LEASE_ACK: "MOSDPGLeaseAck",
    MessageType.OSD_PG_NOTIFY: "MOSDPGNotify",
    MessageType.OSD_PG_NOTIFY2: "MOSDPGNotify2",
    MessageType.OSD_PG_QUERY: "MOSDPGQuery",
    MessageType.OSD_PG_QUERY2: "MOSDPGQuery2",
    MessageType.OSD_REPOP: "MOSDRepOp",
    MessageType.OSD_REPOPREPLY: "MOSDRepOpReply",
    MessageType.OSD_MAP: "MOSDMap",
    MessageType.OSD_BACKOFF: "MOSDBackoff",
    MessageType.WATCH_NOTIFY: "MWatchNotify",
    MessageType.OSD_OP: "MOSDOp",
    MessageType.OSD_OPREPLY: "MOSDOpReply",
    MessageType.OSD_PING: "MOSDPing",
    MessageType.PING: "MPing",
    MessageType.GETPOOLSTATS: "MGetPoolStats",
    MessageType.GETPOOLSTATSREPLY: "MGetPoolStatsReply",
    MessageType.POOLOP: "MPoolOp",
    MessageType.POOLOP_REPLY: "MPoolOpReply",
    MessageType.STATFS: "MStatfs",
    MessageType.STATFS_REPLY: "MStatfsReply",
    MessageType.OSD_PG_LOG: "MOSDPGLog",
    MessageType.OSD_PG_TRIM: "MOSDPGTrim",
    MessageType.OSD_PG_UPDATE_LOG_MISSING: "MOSDPGUpdateLogMissing",
    MessageType.OSD_PG_UPDATE_LOG_MISSING_REPLY: "MOSDPGUpdateLogMissingReply",
    MessageType.OSD_PG_PUSH: "MOSDPGPush",
    MessageType.OSD_PG_PULL: "MOSDPGPull",
    MessageType.OSD_PG_PUSH_REPLY: "MOSDPGPushReply",
    MessageType.OSD_PG_RECOVERY_DELETE: "MOSDPGRecoveryDelete",
    MessageType.OSD_PG_RECOVERY_DELETE_REPLY: "MOSDPGRecoveryDeleteReply",
    MessageType.OSD_PG_BACKFILL_REMOVE: "MOSDPGBackfillRemove",
    MessageType.OSD_PG_SCAN: "MOSDPGScan",
    MessageType.OSD_PG_BACKFILL: "MOSDPGBackfill",
    MessageType.OSD_BACKFILL_RESERVE: "MBackfillReserve",
    MessageType.OSD_RECOVERY_RESERVE: "MRecoveryReserve",
    MessageType.OSD_FORCE_RECOVERY: "MOSDForceRecovery",
    MessageType.OSD_SCRUB2: "MOSDScrub2",
    MessageType.OSD_SCRUB_RESERVE: "MOSDScrubReserve",
    MessageType.OSD_REP_SCRUB: "MOSDRepScrub",
    MessageType.OSD_REP_SCRUBMAP: "MOSDRepScrubMap",
    MessageType.OSD_EC_WRITE: "MOSDECSubOpWrite",
    MessageType.OSD_EC_WRITE_REPLY: "MOSDECSubOpWriteReply",
    MessageType.OSD_EC_READ: "MOSDECSubOpRead",
    MessageType.OSD_EC_READ_REPLY: "MOSDECSubOpReadReply",
    MessageType.OSD_FAILURE: "MOSDFailure",
    MessageType.OSD_MARK_ME_DOWN: "MOSDMarkMeDown",
    MessageType.OSD_MARK_ME_DEAD: "MOSDMarkMeDead",
    MessageType.OSD_PG_CREATE2: "MOSDPGCreate2",
    MessageType.OSD_PG_CREATED: "MOSDPGCreated",
    MessageType.OSD_PG_REMOVE: "MOSDPGRemove",
    MessageType.OSD_PG_READY_TO_MERGE: "MOSDPGReadyToMerge",
    MessageType.MON_ELECTION: "MMonElection",
    MessageType.MON_PAXOS: "MMonPaxos",
    MessageType.MON_PROBE: "MMonProbe",
    MessageType.MON_JOIN: "MMonJoin",
    MessageType.MON_SYNC: "MMonSync",
    MessageType.MON_SCRUB: "MMonScrub",
    MessageType.TIMECHECK2: "MTimeCheck2",
    MessageType.MON_GLOBAL_ID: "MMonGlobalID",
    MessageType.CLIENT_CAPS: "MClientCaps",
    MessageType.CLIENT_LEASE: "MClientLease",
    MessageType.CLIENT_CAPRELEASE: "MClientCapRelease",
    MessageType.CLIENT_REQUEST_FORWARD: "MClientRequestForward",
    MessageType.MDS_LOCK: "MLock",
    MessageType.MDS_TABLE_REQUEST: "MMDSTableRequest",
    MessageType.MDS_GATHERCAPS: "MGatherCaps",
    MessageType.MDS_PING: "MMDSPing",
    MessageType.MDS_OFFLOAD_TARGETS: "MMDSLoadTargets",
    MessageType.MDS_SNAPUPDATE: "MMDSSnapUpdate",
    MessageType.MDS_FINDINO: "MMDSFindIno",
    MessageType.MDS_FINDINOREPLY: "MMDSFindInoReply",
    MessageType.MDS_DISCOVER: "MDiscover",
    MessageType.MDS_DENTRYLINK: "MDentryLink",
    MessageType.MDS_DENTRYUNLINK: "MDentryUnlink",
    MessageType.MDS_EXPORTDIRDISCOVER: "MExportDirDiscover",
    MessageType.MDS_EXPORTDIRDISCOVERACK: "MExportDirDiscoverAck",
    MessageType.MDS_EXPORTDIRPREP: "MExportDirPrep",
    MessageType.MDS_EXPORTDIRPREPACK: "MExportDirPrepAck",
    MessageType.MDS_EXPORTDIR: "MExportDir",
    MessageType.MDS_EXPORTDIRACK: "MExportDirAck",
    MessageType.MDS_EXPORTDIRFINISH: "MExportDirFinish",
    MessageType.NOP: "MNop",
    MessageType.SHUTDOWN: "MShutdown",
    MessageType.MGR_UPDATE: "MMgrUpdate",
    MessageType.OSD_FULL: "MOSDFull",
    MessageType.OSD_PG_CREATE: "MOSDPGCreate",
    MessageType.OSD_SCRUB: "MOSDScrub",
    MessageType.PGSTATSACK: "MPGStatsAck",
    MessageType.OSD_PG_PCT: "MOSDPGPCT",
    MessageType.MON_HEALTH: "MMonHealth",
    MessageType.MON_HEALTH_CHECKS: "MMonHealthChecks",
    MessageType.MON_METADATA: "MMonMetadata",
    MessageType.TIMECHECK: "MTimeCheck",
    MessageType.MON_GET_PURGED_SNAPS: "MMonGetPurgedSnaps",
    MessageType.MON_GET_PURGED_SNAPS_REPLY: "MMonGetPurgedSnapsReply",
    MessageType.REMOVE_SNAPS: "MRemoveSnaps",
    MessageType.CLIENT_RECLAIM: "MClientReclaim",
    MessageType.CLIENT_RECLAIM_REPLY: "MClientReclaimReply",
    MessageType.CLIENT_RECONNECT: "MClientReconnect",
    MessageType.CLIENT_SNAP: "MClientSnap",
    MessageType.CLIENT_QUOTA: "MClientQuota",
    MessageType.CLIENT_METRICS: "MClientMetrics",
    MessageType.MDS_METRICS: "MMDSMetrics",
    MessageType.MDS_HEARTBEAT: "MHeartbeat",
    MessageType.MDS_RESOLVE: "MMDSResolve",
    MessageType.MDS_RESOLVEACK: "MMDSResolveAck",
    MessageType.MDS_CACHEREJOIN: "MMDSCacheRejoin",
    MessageType.MDS_DISCOVERREPLY: "MDiscoverReply",
    MessageType.MDS_DIRUPDATE: "MDirUpdate",
    MessageType.MDS_CACHEEXPIRE: "MCacheExpire",
    MessageType.MDS_FRAGMENTNOTIFY: "MMDSFragmentNotify",
    MessageType.MDS_FRAGMENTNOTIFYACK: "MMDSFragmentNotifyAck",
    MessageType.MDS_OPENINO: "MMDSOpenIno",
    MessageType.MDS_OPENINOREPLY: "MMDSOpenInoReply",
    MessageType.MDS_INODEFILECAPS: "MInodeFileCaps",
    MessageType.MDS_PEER_REQUEST: "MMDSPeerRequest",
    MessageType.MDS_EXPORTDIRCANCEL: "MExportDirCancel",
    MessageType.MDS_EXPORTDIRNOTIFY: "MExportDirNotify",
    MessageType.MDS_EXPORTDIRNOTIFYACK: "MExportDirNotifyAck",
    MessageType.MDS_EXPORTCAPS: "MExportCaps",
    MessageType.MDS_EXPORTCAPSACK: "MExportCapsAck",
    MessageType.MDS_SCRUB: "MMDSScrub",
    MessageType.MDS_SCRUB_STATS: "MMDSScrubStats",
    MessageType.MDS_QUIESCE_DB_LISTING: "MMDSQuiesceDbListing",
    MessageType.MDS_QUIESCE_DB_ACK: "MMDSQuiesceDbAck",
    MessageType.MNVMEOF_GW_MAP: "MNVMeofGwMap",
    MessageType.MNVMEOF_GW_BEACON: "MNVMeofGwBeacon",
}
"""Name of the payload class by message type; :mod:`messenger.messages` lists its module."""

_LOADED: dict[int, type[Payload]] = {}
"""The payload classes whose modules have been imported."""


class _Payloads(Mapping[int, type[Payload]]):
    @override
    def __getitem__(self, kind: int) -> type[Payload]:
        if (payload := _LOADED.get(kind)) is None:
            payload = _LOADED[kind] = getattr(messenger.messages, _NAMES[kind])
        return payload

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(_NAMES)

    @override
    def __len__(self) -> int:
        return len(_NAMES)


PAYLOADS: Mapping[int, type[Payload]] = _Payloads()
"""Payload classes by message type. Messages of all other types stay uninterpreted."""

KNOWN_TYPES = frozenset(_NAMES)


def decode_payload(message: Message, features: int) -> Payload | None:
    """Decode a received message; None if its type is unknown.

    Args:
        message: the received message; it is not changed.
        features: features negotiated with the sender.

    Raises:
        DecodeError: the message's compat_version is above our version, or the front is malformed.
    """
    payload = _LOADED.get(message.type) or PAYLOADS.get(message.type)
    if payload is None:
        return None
    # Very old senders set compat_version to 0, which stands for the version itself (docs/protocol.md §3.7).
    needed = message.compat_version or message.version
    if needed > payload.VERSION:
        name = message_name(message.type)
        raise DecodeError(f"{name} needs a decoder of version {needed}, this one knows {payload.VERSION}")
    return payload.decode(Decoder(message.front), message.version, features)
