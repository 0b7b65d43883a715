# What `import messenger` offers; __init__.py loads each name when it is first used.
from .cephx.client import CephxClient
from .cephx.exchange import AuthMethod, ConMode
from .cephx.keyring import Keyring
from .cephx.keys import CryptoKey
from .cephx.minting import MintingClient
from .cephx.negotiation import ClientAuth, ServerAuth
from .cephx.none import NoneClient, NoneServer
from .cephx.service import CephxService
from .cephx.tickets import ServiceKey
from .config import Config
from .denc.address import AddressType, AddrVec, EntityAddr
from .denc.entity import AuthName, EntityName, EntityType
from .dispatch import Dispatcher
from .errors import (
    AuthError,
    DecodeError,
    DieError,
    Fault,
    FaultError,
    FaultReason,
    LocalError,
    MsgrError,
    PeerError,
)
from .inbox import Inbox
from .interception import Action, Custom, Interceptor, Point, Way
from .messages.config import MConfig
from .messages.log import MLog, MLogAck
from .messages.message import Message, Payload
from .messages.mon import (
    MMonCommand,
    MMonCommandAck,
    MMonGetMap,
    MMonGetVersion,
    MMonGetVersionReply,
    MMonSubscribe,
    MMonSubscribeAck,
    Subscription,
)
from .messages.monmap import MMonMap, MonMap
from .messages.osd import MOSDMap
from .messages.osdmap import OSDMap
from .messages.ping import MPing
from .messages.types import MessageType
from .messenger import Connection, Messenger
from .protocols import Protocol
from .session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    STATEFUL_SERVER,
    STATELESS_REGISTERED_SERVER,
    STATELESS_SERVER,
    Policy,
    PolicySet,
    ThrottleLimit,
)
from .session.states import SessionState

__all__ = [
    "LOSSLESS_CLIENT",
    "LOSSLESS_PEER",
    "LOSSLESS_PEER_REUSE",
    "LOSSY_CLIENT",
    "STATEFUL_SERVER",
    "STATELESS_REGISTERED_SERVER",
    "STATELESS_SERVER",
    "Action",
    "AddrVec",
    "AddressType",
    "AuthError",
    "AuthMethod",
    "AuthName",
    "CephxClient",
    "CephxService",
    "ClientAuth",
    "ConMode",
    "Config",
    "Connection",
    "CryptoKey",
    "Custom",
    "DecodeError",
    "DieError",
    "Dispatcher",
    "EntityAddr",
    "EntityName",
    "EntityType",
    "Fault",
    "FaultError",
    "FaultReason",
    "Inbox",
    "Interceptor",
    "Keyring",
    "LocalError",
    "MConfig",
    "MLog",
    "MLogAck",
    "MMonCommand",
    "MMonCommandAck",
    "MMonGetMap",
    "MMonGetVersion",
    "MMonGetVersionReply",
    "MMonMap",
    "MMonSubscribe",
    "MMonSubscribeAck",
    "MOSDMap",
    "MPing",
    "Message",
    "MessageType",
    "Messenger",
    "MintingClient",
    "MonMap",
    "MsgrError",
    "NoneClient",
    "NoneServer",
    "OSDMap",
    "Payload",
    "PeerError",
    "Point",
    "Policy",
    "PolicySet",
    "Protocol",
    "ServerAuth",
    "ServiceKey",
    "SessionState",
    "Subscription",
    "ThrottleLimit",
    "Way",
]
