"""Addresses as records print them, such as ``v2:10.1.2.3:6800/77`` (docs/protocol.md §1.3)."""

import struct
from ipaddress import ip_address

_TYPES = {"v1": 1, "v2": 2, "any": 3}
_FAMILIES = {4: 2, 6: 10}
_BLANK = bytes(36)


def vector(text: str) -> list[str]:
    """The single addresses of a printed vector.

    >>> vector("[v2:10.1.2.3:6800/7,v1:10.1.2.3:6801/7]")
    ['v2:10.1.2.3:6800/7', 'v1:10.1.2.3:6801/7']
    """
    is_vector = text.startswith("[") and text.endswith("]")
    return [part for part in (text[1:-1] if is_vector else text).split(",") if part]


def image(address: str) -> bytes:
    """The bytes by which addresses are ordered; of an unreadable one those of the blank address."""
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
    """Where an entity stands in a race: the image of its first address of ``v2`` or ``v1``, or the blank one."""
    return next((image(each) for each in vector(addrs) if each.startswith(f"{protocol}:")), _BLANK)
