"""Creates an identity from options and a keyring (docs/protocol.md §4.7, §7.3)."""

import re

from messenger.cephx.client import CLIENT_SERVICES, METADATA_SERVICES, CephxClient
from messenger.cephx.exchange import AuthClient, AuthMethod
from messenger.cephx.keyring import Keyring
from messenger.cephx.negotiation import ClientAuth
from messenger.cephx.none import NoneClient
from messenger.cephx.refusal import Refusal
from messenger.denc.entity import AuthName, EntityType
from messenger.errors import LocalError

DEFAULT_CLIENT_METHODS = "cephx, none"
"""Default of ``auth_client_required``."""

_SEPARATORS = re.compile(r"[\s,;=]+")
_METHODS = {"none": AuthMethod.NONE, "cephx": AuthMethod.CEPHX}


def parse_methods(text: str) -> tuple[AuthMethod, ...]:
    """Parse ``auth_client_required`` and similar options: methods in order of preference.

    Raises:
        LocalError: the text is empty or names an unknown method.
    """
    names = [name for name in _SEPARATORS.split(text.strip()) if name]
    unknown = [name for name in names if name not in _METHODS]
    if unknown or not names:
        raise LocalError(f"{text!r} is not a list of methods; known: {', '.join(_METHODS)}")
    return tuple(dict.fromkeys(_METHODS[name] for name in names))


def client_identity(name: AuthName, keyring: Keyring | None, methods: str = DEFAULT_CLIENT_METHODS) -> ClientAuth:
    """Create the identity of ``name``, which requests the tickets that an entity of its type needs.

    Args:
        name: the entity that authenticates.
        keyring: contains its key; without it cephx is not offered.
        methods: ``auth_client_required``, by preference.

    Raises:
        LocalError: ``methods`` is not a list of methods, or the key is of an unsupported type.
        RefusedError: NO_KEYRING: cephx is the only method, and there is no key.
    """
    offered: dict[AuthMethod, AuthClient] = {}
    for method in parse_methods(methods):
        if method is AuthMethod.NONE:
            offered[method] = NoneClient(name)
        elif keyring is not None and keyring.has(name):
            metadata = name.type in (EntityType.MDS, EntityType.MGR)
            services = METADATA_SERVICES if metadata else CLIENT_SERVICES
            offered[method] = CephxClient(name, keyring.key(name), services)
    if not offered:
        where = keyring.source if keyring else "no keyring"
        raise Refusal.NO_KEYRING.error(f"{where}: no key for {name}, and no other method than cephx is allowed")
    return ClientAuth(offered)
