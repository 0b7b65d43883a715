"""Phrases that name a missing key, for one line of text."""

from messenger.cephx.structures import NAMED_KEY_SECRET_ID
from messenger.denc.entity import AuthName, EntityType
from toolkit.dissect.keys.book import KeyBook

_LONGEST_NAME = 60
_LABELS = {int(service): service.label for service in EntityType}


def entity(name: AuthName) -> str:
    """Return an entity's name, escaped to fit one line whatever bytes it has."""
    text = str(name)
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."


def service_label(service: int) -> str:
    """Return the name of a service, ``osd`` for 4; the number itself if it is unknown."""
    return _LABELS.get(service, f"service 0x{service:x}")


def key_of(name: AuthName) -> str:
    """Name the key of an entity, which is missing."""
    return f"key of {entity(name)}"


def does_not_fit(what: str) -> str:
    """Say that a key is known but wrong."""
    return f"{what} does not fit"


def service_key(service: int, secret_id: int) -> str:
    """Name the key that seals the tickets for a service."""
    if secret_id == NAMED_KEY_SECRET_ID:
        return f"key of {service_label(service)}."
    return f"service key of {service_label(service)} with secret_id {secret_id}"


def ticket_key(book: KeyBook, service: int, secret_id: int, global_id: int) -> str:
    """Name the keys that would open an authorizer: the service's key, or its holder's exchange with a monitor."""
    what = service_key(service, secret_id)
    if secret_id == NAMED_KEY_SECRET_ID:
        return what
    name = book.name_of(global_id)
    holder = f"the entity with global_id {global_id}" if name is None else entity(name)
    if name is not None and book.fits(name):
        return f"{what} (or the exchange of {holder} with a monitor)"
    key = "a key" if name is not None and book.keys_of(name) else "the key"
    fitting = " that fits," if key == "a key" else ""
    return f"{what} (or {key} of {holder}{fitting} and its exchange with a monitor)"
