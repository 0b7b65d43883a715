"""The two ends of a benchmark: identities, authentication (cephx, tickets from a shared key), messages."""

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
SECRET_ID = 1
MESSAGE_TYPE = 0xBE9C
"""A type that Ceph does not use, so that payloads stay bytes whatever types the messenger can decode."""


def auth_client(key: CryptoKey) -> MintingClient:
    """Return the sender's credentials: tickets made from the shared key."""
    service_keys = {RECEIVER.type: ServiceKey(SECRET_ID, key)}
    return MintingClient(AuthName(SENDER.type, str(SENDER.num)), SENDER.num, service_keys)


def auth_server(key: CryptoKey) -> CephxService:
    """Return the receiver's side of the authentication."""
    return CephxService(RECEIVER.type, {SECRET_ID: key})
