"""Which payload class reads which message type."""

from messenger.denc.codec import Decoder
from messenger.errors import DecodeError
from messenger.messages.auth import MAuth, MAuthReply
from messenger.messages.command import MCommand, MCommandReply, MMgrCommand, MMgrCommandReply
from messenger.messages.config import MConfig, MGetConfig, MKVData
from messenger.messages.log import MLog, MLogAck
from messenger.messages.mds_client import MClientReply, MClientRequest, MClientSession
from messenger.messages.mdsmap import MFSMapUser, MMDSBeacon, MMDSMap
from messenger.messages.message import Message, Payload
from messenger.messages.mgr import MMgrBeacon, MMgrClose, MMgrConfigure, MMgrOpen, MMgrReport
from messenger.messages.mgrmap import MMgrMap, MServiceMap
from messenger.messages.mon import (
    MMonCommand,
    MMonCommandAck,
    MMonGetMap,
    MMonGetOSDMap,
    MMonGetVersion,
    MMonGetVersionReply,
    MMonSubscribe,
    MMonSubscribeAck,
)
from messenger.messages.mon_peer import MForward, MMonPing, MMonUsedPendingKeys, MRoute
from messenger.messages.monmap import MMonMap
from messenger.messages.osd import MOSDMap
from messenger.messages.osd_client import MOSDBackoff, MWatchNotify
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_ping import MOSDPing
from messenger.messages.ping import MPing
from messenger.messages.pools import (
    MGetPoolStats,
    MGetPoolStatsReply,
    MPoolOp,
    MPoolOpReply,
    MStatfs,
    MStatfsReply,
)
from messenger.messages.types import message_name

PAYLOADS: dict[int, type[Payload]] = {
    payload.TYPE: payload
    for payload in (
        # auth
        MAuth,
        MAuthReply,
        # command
        MCommand,
        MCommandReply,
        MMgrCommand,
        MMgrCommandReply,
        # config
        MConfig,
        MGetConfig,
        MKVData,
        # log
        MLog,
        MLogAck,
        # mds_client
        MClientReply,
        MClientRequest,
        MClientSession,
        # mdsmap
        MFSMapUser,
        MMDSBeacon,
        MMDSMap,
        # mgr
        MMgrBeacon,
        MMgrClose,
        MMgrConfigure,
        MMgrOpen,
        MMgrReport,
        # mgrmap
        MMgrMap,
        MServiceMap,
        # mon
        MMonCommand,
        MMonCommandAck,
        MMonGetMap,
        MMonGetOSDMap,
        MMonGetVersion,
        MMonGetVersionReply,
        MMonSubscribe,
        MMonSubscribeAck,
        # mon_peer
        MForward,
        MMonPing,
        MMonUsedPendingKeys,
        MRoute,
        # monmap
        MMonMap,
        # osd
        MOSDMap,
        # osd_client
        MOSDBackoff,
        MWatchNotify,
        # osd_op
        MOSDOp,
        # osd_op_reply
        MOSDOpReply,
        # osd_ping
        MOSDPing,
        # ping
        MPing,
        # pools
        MGetPoolStats,
        MGetPoolStatsReply,
        MPoolOp,
        MPoolOpReply,
        MStatfs,
        MStatfsReply,
    )
}
"""Message types that are decoded, by module. All others pass through as bytes."""

KNOWN_TYPES = frozenset(PAYLOADS)


def decode_payload(message: Message, features: int) -> Payload | None:
    """What a received message means, or None if its type is not known here.

    Args:
        message: as received; it is not changed.
        features: negotiated with the sender.

    Raises:
        DecodeError: the sender says that a decoder of our version cannot read it, or the front is malformed.
    """
    payload = PAYLOADS.get(message.type)
    if payload is None:
        return None
    # Very old senders leave compat_version 0, which means the version itself (§3.7).
    needed = message.compat_version or message.version
    if needed > payload.VERSION:
        name = message_name(message.type)
        raise DecodeError(f"{name} needs a decoder of version {needed}, this one knows {payload.VERSION}")
    return payload.decode(Decoder(message.front), message.version, features)
