"""Host names in addresses, resolved by this machine (/etc/hosts or DNS)."""

import re
import socket

from messenger.errors import LocalError

_ADDRESS = re.compile(
    r"(?P<type>(?:(?:v1|v2|any):)?)(?P<host>[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)(?P<rest>(?::[0-9]+)?(?:/[0-9]+)?)"
)
_LOCALHOST = "localhost"
_NUMERIC = re.compile("[0-9.]+")


def numeric(text: str) -> str:
    """Replace the host name in an address, in Ceph's text form, by its IP address; others are returned unchanged.

    Raises:
        LocalError: the name cannot be resolved.

    >>> numeric("v2:10.1.2.3:3300/0"), numeric("v2:localhost:3300")
    ('v2:10.1.2.3:3300/0', 'v2:127.0.0.1:3300')
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or _NUMERIC.fullmatch(match["host"]):
        return text
    if match["host"] == _LOCALHOST:  # RFC 6761 §6.3, whatever /etc/hosts has
        return f"{match['type']}127.0.0.1{match['rest']}"
    try:
        found = socket.getaddrinfo(match["host"], None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LocalError(f"{text!r}: no host {match['host']!r} is known: {reason}") from None
    addresses = sorted((family is socket.AF_INET6, str(address[0])) for family, _, _, _, address in found)
    is_v6, ip = addresses[0]
    return f"{match['type']}{f'[{ip}]' if is_v6 else ip}{match['rest']}"
