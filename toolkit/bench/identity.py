"""Who the two ends of a benchmark are, and how they prove it: cephx with tickets made from a shared key."""

from messenger.cephx.keys import CryptoKey
from messenger.cephx.minting import MintingClient
from messenger.cephx.service import CephxService
from messenger.cephx.tickets import ServiceKey
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.session.policy import LOSSLESS_CLIENT, STATEFUL_SERVER, PolicySet

SENDER = EntityName(EntityType.CLIENT, 1)
RECEIVER = EntityName(EntityType.OSD, 0)
SENDER_POLICIES = PolicySet(LOSSLESS_CLIENT)
RECEIVER_POLICIES = PolicySet(STATEFUL_SERVER)
_SECRET_ID = 1


def auth_client(key: CryptoKey) -> MintingClient:
    """How the sender authenticates."""
    service_keys = {RECEIVER.type: ServiceKey(_SECRET_ID, key)}
    return MintingClient(AuthName(SENDER.type, str(SENDER.num)), SENDER.num, service_keys)


def auth_server(key: CryptoKey) -> CephxService:
    """How the receiver checks it."""
    return CephxService(RECEIVER.type, {_SECRET_ID: key})
