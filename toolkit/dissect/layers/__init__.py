"""Scapy layers for msgr v1 and v2; see docs/scapy.md.

Importing this package binds them: scapy then dissects TCP payload on Ceph's ports, and banners on any port.
"""

from toolkit.extras import require

require("scapy")

from toolkit.dissect.layers.control import (
    CONTROL_LAYERS,
    MSGR2_Ack,
    MSGR2_AuthBadMethod,
    MSGR2_AuthDone,
    MSGR2_AuthReplyMore,
    MSGR2_AuthRequest,
    MSGR2_AuthRequestMore,
    MSGR2_AuthSignature,
    MSGR2_ClientIdent,
    MSGR2_CompressionDone,
    MSGR2_CompressionRequest,
    MSGR2_Hello,
    MSGR2_IdentMissingFeatures,
    MSGR2_KeepAlive2,
    MSGR2_KeepAlive2Ack,
    MSGR2_ServerIdent,
    MSGR2_SessionReconnect,
    MSGR2_SessionReconnectOk,
    MSGR2_SessionReset,
    MSGR2_SessionRetry,
    MSGR2_SessionRetryGlobal,
    MSGR2_Wait,
)
from toolkit.dissect.layers.decoded import MSGR_Gap, MSGR_Link, MSGR_Unknown, packet_of
from toolkit.dissect.layers.frame import MSGR2, MSGR2_Banner, MSGR2_Compressed, MSGR2_Rev0
from toolkit.dissect.layers.guess import MSGR, bind
from toolkit.dissect.layers.message import MSGR2_Message
from toolkit.dissect.layers.sealed import MSGR2_Secure
from toolkit.dissect.layers.session import MsgrSession, read_frames
from toolkit.dissect.layers.v1 import (
    MSGR1,
    MSGR1_Ack,
    MSGR1_Banner,
    MSGR1_ClientIdentify,
    MSGR1_Close,
    MSGR1_Connect,
    MSGR1_ConnectReply,
    MSGR1_KeepAlive,
    MSGR1_KeepAlive2,
    MSGR1_KeepAlive2Ack,
    MSGR1_Message,
    MSGR1_Seq,
    MSGR1_ServerIdentify,
)

__all__ = [
    "CONTROL_LAYERS",
    "MSGR",
    "MSGR1",
    "MSGR2",
    "MSGR1_Ack",
    "MSGR1_Banner",
    "MSGR1_ClientIdentify",
    "MSGR1_Close",
    "MSGR1_Connect",
    "MSGR1_ConnectReply",
    "MSGR1_KeepAlive",
    "MSGR1_KeepAlive2",
    "MSGR1_KeepAlive2Ack",
    "MSGR1_Message",
    "MSGR1_Seq",
    "MSGR1_ServerIdentify",
    "MSGR2_Ack",
    "MSGR2_AuthBadMethod",
    "MSGR2_AuthDone",
    "MSGR2_AuthReplyMore",
    "MSGR2_AuthRequest",
    "MSGR2_AuthRequestMore",
    "MSGR2_AuthSignature",
    "MSGR2_Banner",
    "MSGR2_ClientIdent",
    "MSGR2_Compressed",
    "MSGR2_CompressionDone",
    "MSGR2_CompressionRequest",
    "MSGR2_Hello",
    "MSGR2_IdentMissingFeatures",
    "MSGR2_KeepAlive2",
    "MSGR2_KeepAlive2Ack",
    "MSGR2_Message",
    "MSGR2_Rev0",
    "MSGR2_Secure",
    "MSGR2_ServerIdent",
    "MSGR2_SessionReconnect",
    "MSGR2_SessionReconnectOk",
    "MSGR2_SessionReset",
    "MSGR2_SessionRetry",
    "MSGR2_SessionRetryGlobal",
    "MSGR2_Wait",
    "MSGR_Gap",
    "MSGR_Link",
    "MSGR_Unknown",
    "MsgrSession",
    "packet_of",
    "read_frames",
]

bind()
