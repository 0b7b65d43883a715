"""Addresses in the form in which records print them, such as ``v2:10.1.2.3:6800/77`` (docs/protocol.md §1.3)."""

import struct
from ipaddress import ip_address

_TYPES = {"v1": 1, "v2": 2, "any": 3}
_FAMILIES = {4: 2, 6: 10}
_BLANK = bytes(36)


def vector(text: str) -> list[str]:
    """Split a printed address vector into its addresses.

    >>> vector("[v2:10.1.2.3:6800/7,v1:10.1.2.3:6801/7]")
    ['v2:10.1.2.3:6800/7', 'v1:10.1.2.3:6801/7']
    """
    is_vector = text.startswith("[") and text.endswith("]")
    return [part for part in (text[1:-1] if is_vector else text).split(",") if part]


def image(address: str) -> bytes:
    """Return the bytes by which addresses are ordered; those of the blank address if it is unreadable."""
    kind, _, rest = address.partition(":")
    if kind not in _TYPES:
        kind, rest = "any", address
    endpoint, _, nonce = rest.rpartition("/")
    host, _, port = endpoint.rpartition(":")
    try:
        ip = ip_address(host.strip("[]"))
        head = struct.pack("<IIH", _TYPES[kind], int(nonce), _FAMILIES[ip.version])
        head += struct.pack(">H", int(port))
    except (ValueError, struct.error):
        return _BLANK
    flowinfo = b"" if ip.version == min(_FAMILIES) else bytes(4)
    return (head + flowinfo + ip.packed).ljust(len(_BLANK), b"\0")


def order(addrs: str, protocol: str) -> bytes:
    """Return the sort key of an entity in a connection race: the image of its first v1 or v2 address."""
    return next((image(each) for each in vector(addrs) if each.startswith(f"{protocol}:")), _BLANK)
