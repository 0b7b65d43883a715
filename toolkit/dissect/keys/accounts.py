"""What cephx exchanges contain, as JSON values beside the frames that carry them (docs/protocol.md §5).

Keys, secrets and proofs are never part of it; sealed things show their length until a key opens them.
"""

from collections.abc import Iterable

from messenger.cephx.authorizer import Authorizer
from messenger.cephx.refusal import errno_name
from messenger.cephx.structures import (
    NAMED_KEY_SECRET_ID,
    NO_TICKET,
    AuthCapsInfo,
    Authenticate,
    RequestType,
    RotatingSecrets,
    ServerChallenge,
    ServiceTicketInfo,
)
from messenger.cephx.tickets import TicketGrant
from messenger.denc.codec import Buffer, Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import PeerError
from toolkit.dissect.keys.phrases import entity, service_label

Account = dict[str, object]
_SERVICES = (EntityType.AUTH, EntityType.MON, EntityType.MGR, EntityType.OSD, EntityType.MDS)
_REQUESTS = {int(kind): kind.name for kind in RequestType}


def introduction(name: AuthName, global_id: int) -> Account:
    """An entity introduces itself to a monitor."""
    return {"to": EntityType.MON.label, "name": entity(name), "global_id": global_id}


def request(kind: int) -> Account:
    """The head of a request to a monitor's ticket service."""
    return {"request": _REQUESTS.get(kind, f"0x{kind:x}")}


def response(kind: int, status: int) -> Account:
    """The head of its answer; ``status`` is 0 or a negative errno."""
    return {"response": _REQUESTS.get(kind, f"0x{kind:x}"), "status": errno_name(status) if status else 0}


def challenge(payload: Buffer) -> Account:
    """The monitor's challenge.

    Raises:
        DecodeError: it is none.
    """
    return {"server_challenge": f"0x{ServerChallenge.decode(Decoder(payload)).server_challenge:016x}"}


def authenticate(asked: Authenticate) -> Account:
    """The proof that an entity has its key, without the proof itself."""
    old = None if asked.old_ticket == NO_TICKET else secret_id(asked.old_ticket.secret_id)
    return {
        "client_challenge": f"0x{asked.client_challenge:016x}",
        "old_ticket_secret_id": old,
        "wanted": services(asked.other_keys),
    }


def authorizer(shown: Authorizer) -> Account:
    """A ticket that is presented to its service."""
    return {
        "to": service_label(shown.service_id),
        "global_id": shown.global_id,
        "secret_id": secret_id(shown.ticket.secret_id),
        "ticket": f"{len(shown.ticket.blob)} bytes",
    }


def holder(info: ServiceTicketInfo) -> Account:
    """What a ticket says of its holder; only the service and the monitors can read it."""
    ticket = info.ticket
    return {
        "name": entity(ticket.name),
        "caps": _caps(ticket.caps),
        "created": str(ticket.created),
        "expires": str(ticket.expires),
    }


def secret(connection_secret: bytes) -> Account:
    """The key material of secure mode, if there is any."""
    return {"connection_secret": f"{len(connection_secret)} bytes"} if connection_secret else {}


def tickets(grants: Iterable[TicketGrant]) -> list[Account]:
    """Tickets as a monitor gives them out."""
    return [
        {
            "service": service_label(grant.service_id),
            "secret_id": None if grant.blob is None else secret_id(grant.blob.secret_id),
            "valid_s": grant.ticket.validity.to_seconds(),
        }
        for grant in grants
    ]


def rotating(secrets: RotatingSecrets) -> list[Account]:
    """The keys of a service, by their numbers."""
    return [
        {"secret_id": number, "expires": str(key.expiration)} for number, key in sorted(secrets.secrets.items())
    ]


def services(mask: int) -> list[str]:
    """The services in a mask."""
    return [service.label for service in _SERVICES if service & mask]


def secret_id(number: int) -> int:
    """The number of a service's key; -1 stands for the service's own one (§5.7)."""
    return -1 if number == NAMED_KEY_SECRET_ID else number


def _caps(caps: AuthCapsInfo) -> str:
    if caps.allow_all:
        return "allow *"
    try:
        return Decoder(caps.caps).string() if caps.caps else ""
    except PeerError:
        return f"{len(caps.caps)} bytes"
