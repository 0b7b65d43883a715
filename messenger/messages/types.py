"""Message type numbers, and the names that Ceph's logs print for them (docs/protocol.md §6.1)."""

from enum import IntEnum


class MessageType(IntEnum):
    """All message types of Ceph 20.2, without the prefixes ``CEPH_MSG_`` and ``MSG_``."""

    SHUTDOWN = 1
    PING = 2
    MON_MAP = 4
    MON_GET_MAP = 5
    MON_GET_OSDMAP = 6
    MON_METADATA = 7
    STATFS = 13
    STATFS_REPLY = 14
    MON_SUBSCRIBE = 15
    MON_SUBSCRIBE_ACK = 16
    AUTH = 17
    AUTH_REPLY = 18
    MON_GET_VERSION = 19
    MON_GET_VERSION_REPLY = 20
    MDS_MAP = 21
    CLIENT_SESSION = 22
    CLIENT_RECONNECT = 23
    CLIENT_REQUEST = 24
    CLIENT_REQUEST_FORWARD = 25
    CLIENT_REPLY = 26
    CLIENT_RECLAIM = 27
    CLIENT_RECLAIM_REPLY = 28
    CLIENT_METRICS = 29
    PAXOS = 40
    OSD_MAP = 41
    OSD_OP = 42
    OSD_OPREPLY = 43
    WATCH_NOTIFY = 44
    FS_MAP = 45
    FORWARD = 46
    ROUTE = 47
    POOLOP_REPLY = 48
    POOLOP = 49
    MON_COMMAND = 50
    MON_COMMAND_ACK = 51
    LOG = 52
    LOGACK = 53
    KV_DATA = 54
    GETPOOLSTATS = 58
    GETPOOLSTATSREPLY = 59
    MON_GLOBAL_ID = 60
    OSD_BACKOFF = 61
    CONFIG = 62
    GET_CONFIG = 63
    MON_SCRUB = 64
    MON_ELECTION = 65
    MON_PAXOS = 66
    MON_PROBE = 67
    MON_JOIN = 68
    MON_SYNC = 69
    OSD_PING = 70
    OSD_BOOT = 71
    OSD_FAILURE = 72
    OSD_ALIVE = 73
    OSD_MARK_ME_DOWN = 74
    OSD_FULL = 75
    MON_GET_PURGED_SNAPS = 76
    MON_GET_PURGED_SNAPS_REPLY = 77
    OSD_PGTEMP = 78
    OSD_BEACON = 79
    OSD_PG_NOTIFY = 80
    OSD_PG_QUERY = 81
    OSD_PG_LOG = 83
    OSD_PG_REMOVE = 84
    OSD_PG_INFO = 85
    OSD_PG_TRIM = 86
    PGSTATS = 87
    PGSTATSACK = 88
    OSD_PG_CREATE = 89
    REMOVE_SNAPS = 90
    OSD_SCRUB = 91
    OSD_SCRUB_RESERVE = 92
    OSD_REP_SCRUB = 93
    OSD_PG_SCAN = 94
    OSD_PG_BACKFILL = 95
    OSD_PG_BACKFILL_REMOVE = 96
    COMMAND = 97
    COMMAND_REPLY = 98
    OSD_BACKFILL_RESERVE = 99
    MDS_BEACON = 100
    MDS_PEER_REQUEST = 101
    MDS_TABLE_REQUEST = 102
    FS_MAP_USER = 103
    OSD_PG_PUSH = 105
    OSD_PG_PULL = 106
    OSD_PG_PUSH_REPLY = 107
    OSD_EC_WRITE = 108
    OSD_EC_WRITE_REPLY = 109
    OSD_EC_READ = 110
    OSD_EC_READ_REPLY = 111
    OSD_REPOP = 112
    OSD_REPOPREPLY = 113
    OSD_PG_UPDATE_LOG_MISSING = 114
    OSD_PG_UPDATE_LOG_MISSING_REPLY = 115
    OSD_PG_CREATED = 116
    OSD_REP_SCRUBMAP = 117
    OSD_PG_RECOVERY_DELETE = 118
    OSD_PG_RECOVERY_DELETE_REPLY = 119
    OSD_PG_CREATE2 = 120
    OSD_SCRUB2 = 121
    OSD_PG_READY_TO_MERGE = 122
    OSD_MARK_ME_DEAD = 123
    OSD_PG_NOTIFY2 = 130
    OSD_PG_QUERY2 = 131
    OSD_PG_INFO2 = 132
    OSD_PG_LEASE = 133
    OSD_PG_LEASE_ACK = 134
    MDS_SCRUB = 135
    OSD_PG_PCT = 136
    MON_PING = 140
    MON_USED_PENDING_KEYS = 141
    OSD_RECOVERY_RESERVE = 150
    OSD_FORCE_RECOVERY = 151
    MDS_RESOLVE = 0x200
    MDS_RESOLVEACK = 0x201
    MDS_CACHEREJOIN = 0x202
    MDS_DISCOVER = 0x203
    MDS_DISCOVERREPLY = 0x204
    MDS_INODEUPDATE = 0x205
    MDS_DIRUPDATE = 0x206
    MDS_CACHEEXPIRE = 0x207
    MDS_DENTRYUNLINK = 0x208
    MDS_FRAGMENTNOTIFY = 0x209
    MDS_OFFLOAD_TARGETS = 0x20A
    MDS_DENTRYLINK = 0x20C
    MDS_FINDINO = 0x20D
    MDS_FINDINOREPLY = 0x20E
    MDS_OPENINO = 0x20F
    MDS_OPENINOREPLY = 0x210
    MDS_SNAPUPDATE = 0x211
    MDS_FRAGMENTNOTIFYACK = 0x212
    MDS_LOCK = 0x300
    MDS_INODEFILECAPS = 0x301
    CLIENT_CAPS = 0x310
    CLIENT_LEASE = 0x311
    CLIENT_SNAP = 0x312
    CLIENT_CAPRELEASE = 0x313
    CLIENT_QUOTA = 0x314
    MDS_EXPORTDIRDISCOVER = 0x449
    MDS_EXPORTDIRDISCOVERACK = 0x450
    MDS_EXPORTDIRCANCEL = 0x451
    MDS_EXPORTDIRPREP = 0x452
    MDS_EXPORTDIRPREPACK = 0x453
    MDS_EXPORTDIRWARNING = 0x454
    MDS_EXPORTDIRWARNINGACK = 0x455
    MDS_EXPORTDIR = 0x456
    MDS_EXPORTDIRACK = 0x457
    MDS_EXPORTDIRNOTIFY = 0x458
    MDS_EXPORTDIRNOTIFYACK = 0x459
    MDS_EXPORTDIRFINISH = 0x460
    MDS_EXPORTCAPS = 0x470
    MDS_EXPORTCAPSACK = 0x471
    MDS_GATHERCAPS = 0x472
    MDS_HEARTBEAT = 0x500
    MDS_METRICS = 0x501
    MDS_PING = 0x502
    MDS_SCRUB_STATS = 0x503
    MDS_QUIESCE_DB_LISTING = 0x505
    MDS_QUIESCE_DB_ACK = 0x506
    TIMECHECK = 0x600
    MON_HEALTH = 0x601
    NOP = 0x607
    MON_HEALTH_CHECKS = 0x608
    TIMECHECK2 = 0x609
    MGR_OPEN = 0x700
    MGR_CONFIGURE = 0x701
    MGR_REPORT = 0x702
    MGR_BEACON = 0x703
    MGR_MAP = 0x704
    MGR_DIGEST = 0x705
    MON_MGR_REPORT = 0x706
    SERVICE_MAP = 0x707
    MGR_CLOSE = 0x708
    MGR_COMMAND = 0x709
    MGR_COMMAND_REPLY = 0x70A
    MGR_UPDATE = 0x70B
    MNVMEOF_GW_MAP = 0x800
    MNVMEOF_GW_BEACON = 0x801


_LOGGED_OTHERWISE = {
    MessageType.MON_GET_MAP: "mon_getmap",
    MessageType.MDS_MAP: "mdsmap",
    MessageType.CLIENT_CAPRELEASE: "client_cap_release",
    MessageType.OSD_OPREPLY: "osd_op_reply",
    MessageType.WATCH_NOTIFY: "watch-notify",
    MessageType.FS_MAP: "fsmap",
    MessageType.POOLOP_REPLY: "pool_op_reply",
    MessageType.POOLOP: "pool_op",
    MessageType.LOGACK: "log_ack",
    MessageType.MON_GLOBAL_ID: "global_id",
    MessageType.MON_ELECTION: "election",
    MessageType.PAXOS: "msg_paxos",
    MessageType.MON_PAXOS: "paxos",
    MessageType.OSD_MARK_ME_DOWN: "MOSDMarkMeDown",
    MessageType.OSD_MARK_ME_DEAD: "MOSDMarkMeDead",
    MessageType.OSD_PG_NOTIFY: "pg_notify",
    MessageType.OSD_PG_QUERY: "pg_query",
    MessageType.OSD_PG_LOG: "PGlog",
    MessageType.OSD_PG_REMOVE: "osd pg remove",
    MessageType.OSD_PG_INFO: "pg_info",
    MessageType.OSD_PG_TRIM: "pg_trim",
    MessageType.PGSTATS: "pg_stats",
    MessageType.PGSTATSACK: "pg_stats_ack",
    MessageType.OSD_SCRUB: "scrub",
    MessageType.OSD_SCRUB2: "scrub2",
    MessageType.OSD_SCRUB_RESERVE: "MOSDScrubReserve",
    MessageType.OSD_REP_SCRUB: "replica_scrub",
    MessageType.OSD_REP_SCRUBMAP: "rep_scrubmap",
    MessageType.OSD_PG_SCAN: "pg_scan",
    MessageType.OSD_PG_BACKFILL: "pg_backfill",
    MessageType.OSD_PG_BACKFILL_REMOVE: "backfill_remove",
    MessageType.OSD_BACKFILL_RESERVE: "MBackfillReserve",
    MessageType.OSD_RECOVERY_RESERVE: "MRecoveryReserve",
    MessageType.OSD_FORCE_RECOVERY: "force_recovery",
    MessageType.MDS_BEACON: "mdsbeacon",
    MessageType.MDS_PEER_REQUEST: "peer_request",
    MessageType.FS_MAP_USER: "fsmap.user",
    MessageType.OSD_PG_PUSH: "MOSDPGPush",
    MessageType.OSD_PG_PULL: "MOSDPGPull",
    MessageType.OSD_PG_PUSH_REPLY: "MOSDPGPushReply",
    MessageType.OSD_EC_WRITE: "MOSDECSubOpWrite",
    MessageType.OSD_EC_WRITE_REPLY: "MOSDECSubOpWriteReply",
    MessageType.OSD_EC_READ: "MOSDECSubOpRead",
    MessageType.OSD_EC_READ_REPLY: "MOSDECSubOpReadReply",
    MessageType.OSD_REPOPREPLY: "osd_repop_reply",
    MessageType.OSD_PG_UPDATE_LOG_MISSING: "pg_update_log_missing",
    MessageType.OSD_PG_UPDATE_LOG_MISSING_REPLY: "pg_update_log_missing_reply",
    MessageType.OSD_PG_RECOVERY_DELETE: "MOSDPGRecoveryDelete",
    MessageType.OSD_PG_RECOVERY_DELETE_REPLY: "MOSDPGRecoveryDeleteReply",
    MessageType.OSD_PG_CREATE2: "pg_create2",
    MessageType.OSD_PG_NOTIFY2: "pg_notify2",
    MessageType.OSD_PG_QUERY2: "pg_query2",
    MessageType.OSD_PG_INFO2: "pg_info2",
    MessageType.OSD_PG_LEASE: "pg_lease",
    MessageType.OSD_PG_LEASE_ACK: "pg_lease_ack",
    MessageType.MDS_RESOLVEACK: "resolve_ack",
    MessageType.MDS_CACHEREJOIN: "cache_rejoin",
    MessageType.MDS_DISCOVER: "discover",
    MessageType.MDS_DISCOVERREPLY: "discover_reply",
    MessageType.MDS_DIRUPDATE: "dir_update",
    MessageType.MDS_CACHEEXPIRE: "cache_expire",
    MessageType.MDS_DENTRYUNLINK: "dentry_unlink",
    MessageType.MDS_FRAGMENTNOTIFY: "fragment_notify",
    MessageType.MDS_FRAGMENTNOTIFYACK: "fragment_notify_ack",
    MessageType.MDS_OFFLOAD_TARGETS: "mds_load_targets",
    MessageType.MDS_DENTRYLINK: "dentry_link",
    MessageType.MDS_FINDINO: "findino",
    MessageType.MDS_FINDINOREPLY: "findinoreply",
    MessageType.MDS_OPENINO: "openino",
    MessageType.MDS_OPENINOREPLY: "openinoreply",
    MessageType.MDS_SNAPUPDATE: "snap_update",
    MessageType.MDS_LOCK: "lock",
    MessageType.MDS_INODEFILECAPS: "inode_file_caps",
    MessageType.MDS_EXPORTDIRDISCOVER: "export_discover",
    MessageType.MDS_EXPORTDIRDISCOVERACK: "export_discover_ack",
    MessageType.MDS_EXPORTDIRCANCEL: "export_cancel",
    MessageType.MDS_EXPORTDIRPREP: "export_prep",
    MessageType.MDS_EXPORTDIRPREPACK: "export_prep_ack",
    MessageType.MDS_EXPORTDIRWARNING: "export_warning",
    MessageType.MDS_EXPORTDIRWARNINGACK: "export_warning_ack",
    MessageType.MDS_EXPORTDIR: "export",
    MessageType.MDS_EXPORTDIRACK: "export_ack",
    MessageType.MDS_EXPORTDIRNOTIFY: "export_notify",
    MessageType.MDS_EXPORTDIRNOTIFYACK: "export_notify_ack",
    MessageType.MDS_EXPORTDIRFINISH: "export_finish",
    MessageType.MDS_EXPORTCAPS: "export_caps",
    MessageType.MDS_EXPORTCAPSACK: "export_caps_ack",
    MessageType.MDS_GATHERCAPS: "gather_caps",
    MessageType.MDS_PING: "mdsping",
    MessageType.MDS_HEARTBEAT: "HB",
    MessageType.TIMECHECK2: "time_check",
    MessageType.MGR_OPEN: "mgropen",
    MessageType.MGR_CONFIGURE: "mgrconfigure",
    MessageType.MGR_REPORT: "mgrreport",
    MessageType.MGR_BEACON: "mgrbeacon",
    MessageType.MGR_MAP: "mgrmap",
    MessageType.MGR_DIGEST: "mgrdigest",
    MessageType.MON_MGR_REPORT: "monmgrreport",
    MessageType.MGR_CLOSE: "mgrclose",
    MessageType.MGR_UPDATE: "mgrupdate",
    MessageType.MNVMEOF_GW_MAP: "nvmeofgwmap",
    MessageType.MNVMEOF_GW_BEACON: "nvmeofgwbeacon",
}
_NAMES: dict[int, str] = {kind: _LOGGED_OTHERWISE.get(kind, kind.name.lower()) for kind in MessageType}


def message_name(number: int) -> str:
    """The name of a message type in Ceph's logs; for an unknown number ``unknown(900)``."""
    return _NAMES.get(number) or f"unknown({number})"
