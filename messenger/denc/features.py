"""Feature bits of a connection, with the incarnations of bits that were reused (docs/protocol.md §2)."""

from enum import IntEnum, IntFlag

_INCARNATION_2 = 1 << 57
_INCARNATION_3 = 1 << 57 | 1 << 28


def _mask(bit: int, incarnation: int) -> int:
    """The bits that must all be set for the feature at ``bit`` in its 1st, 2nd or 3rd use (§2.1)."""
    return 1 << bit | (0, _INCARNATION_2, _INCARNATION_3)[incarnation - 1]


class Feature(IntEnum):
    """Features by Ceph's names. The value is the full mask, incarnation markers included.

    Names that share a bit and an incarnation are aliases of the first one.
    """

    UID = _mask(0, 1)
    NOSRCADDR = _mask(1, 1)
    SERVER_NAUTILUS = _mask(2, 3)
    FLOCK = _mask(3, 1)
    SUBSCRIBE2 = _mask(4, 1)
    MONNAMES = _mask(5, 1)
    RECONNECT_SEQ = _mask(6, 1)
    DIRLAYOUTHASH = _mask(7, 1)
    OBJECTLOCATOR = _mask(8, 1)
    PGID64 = _mask(9, 1)
    INCSUBOSDMAP = _mask(10, 1)
    PGPOOL3 = _mask(11, 1)
    OSDREPLYMUX = _mask(12, 1)
    OSDENC = _mask(13, 1)
    SERVER_KRAKEN = _mask(14, 2)
    MONENC = _mask(15, 1)
    SERVER_OCTOPUS = _mask(16, 3)
    OSD_REPOP_MLCOD = _mask(16, 3)
    OS_PERF_STAT_NS = _mask(17, 3)
    CRUSH_TUNABLES = _mask(18, 1)
    OSD_PGLOG_HARDLIMIT = _mask(19, 2)
    SERVER_PACIFIC = _mask(20, 3)
    SERVER_LUMINOUS = _mask(21, 2)
    RESEND_ON_SPLIT = _mask(21, 2)
    RADOS_BACKOFF = _mask(21, 2)
    OSDMAP_PG_UPMAP = _mask(21, 2)
    CRUSH_CHOOSE_ARGS = _mask(21, 2)
    OSD_FIXED_COLLECTION_LIST = _mask(22, 2)
    MSG_AUTH = _mask(23, 1)
    RECOVERY_RESERVATION_2 = _mask(24, 2)
    CRUSH_TUNABLES2 = _mask(25, 1)
    CREATEPOOLID = _mask(26, 1)
    REPLY_CREATE_INODE = _mask(27, 1)
    SERVER_MIMIC = _mask(28, 2)
    MDSENC = _mask(29, 1)
    OSDHASHPSPOOL = _mask(30, 1)
    SERVER_REEF = _mask(31, 3)
    STRETCH_MODE = _mask(32, 3)
    SERVER_QUINCY = _mask(33, 3)
    RANGE_BLOCKLIST = _mask(34, 3)
    OSD_CACHEPOOL = _mask(35, 1)
    CRUSH_V2 = _mask(36, 1)
    EXPORT_PEER = _mask(37, 1)
    CRUSH_MSR = _mask(38, 2)
    OSDMAP_ENC = _mask(39, 1)
    MDS_INLINE_DATA = _mask(40, 1)
    CRUSH_TUNABLES3 = _mask(41, 1)
    OSD_PRIMARY_AFFINITY = _mask(41, 1)
    MSGR_KEEPALIVE2 = _mask(42, 1)
    OSD_POOLRESEND = _mask(43, 1)
    NVMEOFHA = _mask(44, 2)
    NVMEOFHAMAP = _mask(45, 2)
    OSD_FADVISE_FLAGS = _mask(46, 1)
    MDS_QUOTA = _mask(47, 1)
    CRUSH_V4 = _mask(48, 1)
    SERVER_SQUID = _mask(49, 2)
    SERVER_TENTACLE = _mask(50, 2)
    NEW_OSDOP_ENCODING = _mask(56, 1)
    SERVER_JEWEL = _mask(57, 1)
    MON_STATEFUL_SUB = _mask(57, 1)
    CRUSH_TUNABLES5 = _mask(58, 1)
    NEW_OSDOPREPLY_ENCODING = _mask(58, 1)
    FS_FILE_LAYOUT_V2 = _mask(58, 1)
    MSG_ADDR2 = _mask(59, 1)
    FS_BTIME = _mask(59, 1)
    FS_CHANGE_ATTR = _mask(59, 1)
    OSD_RECOVERY_DELETES = _mask(60, 1)
    CEPHX_V2 = _mask(61, 1)


MSG_ADDR2 = int(Feature.MSG_ADDR2)
"""The feature that every endpoint of msgr v2 requires of its peer (§2.3)."""

ALL_FEATURES = 0x3F07FFFFFFFDFFFF
"""The features that Ceph 20.2.4 advertises; v2 frames are encoded with these."""

CLIENT_FEATURES = 0x3F01CFBDFFFDFFFF
"""The features advertised by default: those of Pacific, which all releases from 14.2 to 20.2 accept (§2.4)."""


class Msgr2Feature(IntFlag):
    """Features in the banner of msgr v2, which are a mask of their own (§2.5)."""

    REVISION_1 = 1
    """Frames of msgr 2.1."""
    COMPRESSION = 2
    """COMPRESSION_REQUEST and COMPRESSION_DONE follow authentication."""


MSGR2_SUPPORTED = int(Msgr2Feature.REVISION_1 | Msgr2Feature.COMPRESSION)
"""The features that this messenger supports, and advertises by default."""

MSGR2_REQUIRED = 0
"""The features that this messenger requires of its peer."""


def has_feature(features: int, feature: int) -> bool:
    """True if every bit of the mask ``feature`` is set in ``features``."""
    return features & feature == feature


def feature_names(features: int) -> list[str]:
    """Names of the features in a mask, lowest bit first; unknown bits are named like ``bit 51``.

    A bit of a later incarnation without its markers has an older meaning, so only its number is listed.
    """
    named = {_own_bit(feature): feature for feature in Feature if has_feature(features, feature)}
    bits = [bit for bit in range(features.bit_length()) if features >> bit & 1]
    return [named[bit].name if bit in named else f"bit {bit}" for bit in bits]


def _own_bit(feature: Feature) -> int:
    """The number of the feature's own bit, not of its incarnation markers."""
    # SERVER_JEWEL and SERVER_MIMIC consist of marker bits only; their own bit is the lowest.
    own = feature & ~_INCARNATION_3 or feature & -feature
    return own.bit_length() - 1
