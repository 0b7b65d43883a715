"""Addresses of entities and of their messengers: entity_addr_t and entity_addrvec_t (docs/protocol.md §1.3)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import Self

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, Feature, has_feature
from messenger.errors import DecodeError, LocalError

_FORM_A_MARKER = 0
_FORM_B_MARKER = 1
_VECTOR_MARKER = 2
_STORAGE_SIZE = 128
_SOCKADDR_SIZE = 28
_SHORTEST_FORM_B = 19
_U32_MAX = (1 << 32) - 1

_SORT_HEAD = Struct("<IIH")
_FAMILY_BE = Struct(">H")
_FAMILY_LE = Struct("<H")
_INET = Struct(">H4s8x")
_INET6 = Struct(">HI16s")
_SCOPE_LE = Struct("<I")
_TEXT = re.compile(
    r"(?:(?P<type>v1|v2|any):)?(?:\[(?P<ip6>[0-9a-fA-F:.]+)\]|(?P<ip4>[0-9.]+))"
    r"(?::(?P<port>[0-9]{1,5}))?(?:/(?P<nonce>[0-9]{1,10}))?"
)
_ACCEPTED = "[v1:|v2:|any:]IP[:PORT][/NONCE], with an IPv6 address in brackets, or - for none"


class AddressType(IntEnum):
    """The protocol of an address."""

    NONE = 0
    LEGACY = 1
    MSGR2 = 2
    ANY = 3
    CIDR = 4


class AddressFamily(IntEnum):
    """Address families of Linux sockets, as they are encoded."""

    UNSPEC = 0
    INET = 2
    INET6 = 10


_PREFIXES = {
    AddressType.LEGACY: "v1:",
    AddressType.MSGR2: "v2:",
    AddressType.ANY: "",
    AddressType.CIDR: "cidr:",
}
_TYPES = {"v1": AddressType.LEGACY, "v2": AddressType.MSGR2, "any": AddressType.ANY}
_FAMILIES = {0: AddressFamily.UNSPEC, 4: AddressFamily.INET, 16: AddressFamily.INET6}
_SOCKADDR_SIZES: dict[int, int] = {AddressFamily.UNSPEC: 28, AddressFamily.INET: 16, AddressFamily.INET6: 28}


@dataclass(frozen=True, slots=True)
class EntityAddr:
    """One address: type, nonce of the process, and a socket address; all fields are zero by default.

    Use :func:`dataclasses.replace` to change single fields.

    >>> EntityAddr.parse("v2:10.1.2.3:3300/0").host
    '10.1.2.3'
    """

    type: AddressType = AddressType.NONE
    nonce: int = 0
    """Distinguishes processes with the same IP and port; 32 bits."""
    port: int = 0
    ip: bytes = b""
    """4 or 16 bytes; empty while the IP is not known."""
    flowinfo: int = 0
    scope_id: int = 0
    """Further fields of an IPv6 socket address; zero in practice, but equality is bytewise (§9 item 23)."""

    def __post_init__(self) -> None:
        if len(self.ip) not in _FAMILIES:
            raise LocalError(f"an IP address has 4 or 16 bytes, not {len(self.ip)}")
        if not 0 <= self.port <= 0xFFFF:
            raise LocalError(f"port {self.port} is not between 0 and 65535")
        if not 0 <= self.nonce <= _U32_MAX:
            raise LocalError(f"nonce {self.nonce} is not between 0 and {_U32_MAX}")
        if not (0 <= self.flowinfo <= _U32_MAX and 0 <= self.scope_id <= _U32_MAX):
            raise LocalError(f"flowinfo {self.flowinfo} or scope id {self.scope_id} exceeds 32 bits")

    def __str__(self) -> str:
        """Ceph's text form, which :meth:`parse` reads; a missing IP is printed as nothing."""
        if self.type is AddressType.NONE:
            return "-"
        host = f"[{self.host}]" if self.family is AddressFamily.INET6 else self.host
        return f"{_PREFIXES[self.type]}{host}:{self.port}/{self.nonce}"

    @classmethod
    def parse(cls, text: str, default_type: AddressType = AddressType.MSGR2) -> Self:
        """Parse Ceph's text form ``v2:10.1.2.3:3300/0``; port and nonce are optional and 0 by default.

        Args:
            text: the address; surrounding blanks are ignored.
            default_type: type of an address without a prefix.

        Raises:
            LocalError: the text is malformed; the message lists what is accepted.
        """
        text = text.strip()
        return cls() if text == "-" else cls(*_parts(text, default_type))

    @classmethod
    def from_host(cls, host: str, port: int, addr_type: AddressType = AddressType.MSGR2, nonce: int = 0) -> Self:
        """Create an address from a socket's host and port. A scope (``%eth0``) is dropped (§9 item 23).

        Raises:
            LocalError: ``host`` is not a numeric IP address.
        """
        try:
            ip = _packed(host)
        except ValueError as error:
            raise LocalError(f"{host!r} is not a numeric IP address: {error}") from None
        return cls(addr_type, nonce, port, ip)

    @classmethod
    def blank(cls, addr_type: AddressType, nonce: int) -> Self:
        """The address of a messenger that is not bound and does not know its IP yet."""
        return cls(addr_type, nonce)

    @property
    def family(self) -> AddressFamily:
        """The family of the socket address."""
        return _FAMILIES[len(self.ip)]

    @property
    def host(self) -> str:
        """The IP address as text, without brackets; empty if there is none."""
        return _printed(self.ip) if self.ip else ""

    @property
    def is_blank(self) -> bool:
        """True if every field is zero."""
        return self == BLANK

    @property
    def is_blank_ip(self) -> bool:
        """True if the IP address is missing or the wildcard."""
        return not any(self.ip)

    def probably_equals(self, other: "EntityAddr") -> bool:
        """True if both may be the same messenger: a blank IP matches any IP, and types are not compared."""
        if self.port != other.port or self.nonce != other.nonce:
            return False
        return self.is_blank_ip or other.is_blank_ip or self.with_ip_of(other) == self

    def with_nonce(self, nonce: int) -> Self:
        """This address with another nonce."""
        return replace(self, nonce=nonce)

    def with_type(self, type_: AddressType) -> Self:
        """This address with another type."""
        return replace(self, type=type_)

    def with_ip_of(self, other: "EntityAddr") -> Self:
        """This address with the IP address of ``other``."""
        return replace(self, ip=other.ip, flowinfo=other.flowinfo, scope_id=other.scope_id)

    def sort_key(self) -> bytes:
        """The 36 bytes that Ceph compares in connection races: note the little-endian nonce (§1.3)."""
        head = _SORT_HEAD.pack(self.type, self.nonce, self.family)
        return (head + self._sockaddr()).ljust(_SORT_HEAD.size - 2 + _SOCKADDR_SIZE, b"\0")

    def encode(self, encoder: Encoder, features: int = ALL_FEATURES) -> None:
        """Append form B, or form A for peers without MSG_ADDR2. Frames of msgr v2 always use form B."""
        if not has_feature(features, Feature.MSG_ADDR2):
            encoder.raw(self.legacy_image())
            return
        known_any = self.type is not AddressType.ANY or has_feature(features, Feature.SERVER_NAUTILUS)
        encoder.u8(_FORM_B_MARKER)
        with encoder.versioned(1, 1):
            encoder.u32(self.type if known_any else AddressType.LEGACY)
            encoder.u32(self.nonce)
            size = _SOCKADDR_SIZES[self.family]
            encoder.u32(size)
            encoder.raw(_FAMILY_LE.pack(self.family))
            encoder.raw(self._sockaddr().ljust(size - 2, b"\0"))

    def legacy_image(self) -> bytes:
        """Form A, 136 bytes: the only form in the address exchange of msgr v1. It does not contain the type."""
        head = bytes(4) + self.nonce.to_bytes(4, "little") + _FAMILY_BE.pack(self.family)
        return (head + self._sockaddr()).ljust(8 + _STORAGE_SIZE, b"\0")

    @staticmethod
    def decode(decoder: Decoder) -> "EntityAddr":
        """Decode either form.

        Raises:
            DecodeError: the bytes are too short, or contain an unknown marker, type, family or length.
        """
        return _decode_marked(decoder.u8(), decoder)

    def _sockaddr(self) -> bytes:
        """The Linux sockaddr after its family, which the two forms encode in different byte orders."""
        if self.family is AddressFamily.INET:
            return _INET.pack(self.port, self.ip)
        if self.family is AddressFamily.INET6:
            return _INET6.pack(self.port, self.flowinfo, self.ip) + _SCOPE_LE.pack(self.scope_id)
        return b""


# Cached: a messenger uses the same few addresses again and again, and ipaddress takes microseconds for each.


@lru_cache(1024)
def _printed(ip: bytes) -> str:
    """The text form of an IP address."""
    return str(ip_address(ip))


@lru_cache(1024)
def _packed(host: str) -> bytes:
    """The bytes of a numeric IP address; raises ValueError if the text is none."""
    return ip_address(host).packed


@lru_cache(1024)
def _parts(text: str, default_type: AddressType) -> tuple[AddressType, int, int, bytes]:
    """Parse Ceph's text form into type, nonce, port and IP; raises as :meth:`EntityAddr.parse`."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise LocalError(f"{text!r} is not an address; accepted: {_ACCEPTED}")
    try:
        ip = IPv6Address(match["ip6"]).packed if match["ip6"] else IPv4Address(match["ip4"]).packed
    except ValueError as error:
        raise LocalError(f"{text!r} is not an address: {error}; accepted: {_ACCEPTED}") from None
    addr_type = _TYPES[match["type"]] if match["type"] else default_type
    return addr_type, int(match["nonce"] or 0), int(match["port"] or 0), ip


MOST_ADDRS = 64
"""Longest accepted vector of addresses: a daemon has two for each family and network on which it listens."""

BLANK = EntityAddr()
"""The blank address."""


@dataclass(frozen=True, slots=True)
class AddrVec:
    """All addresses of one messenger; daemons put the v2 address first."""

    addrs: tuple[EntityAddr, ...] = ()

    def __str__(self) -> str:
        """A single address is printed without brackets, anything else with brackets, as in Ceph."""
        if len(self.addrs) == 1:
            return str(self.addrs[0])
        return "[" + ",".join(map(str, self.addrs)) + "]"

    def __iter__(self) -> Iterator[EntityAddr]:
        return iter(self.addrs)

    def __len__(self) -> int:
        return len(self.addrs)

    def __contains__(self, addr: object) -> bool:
        return addr in self.addrs

    @classmethod
    def parse(cls, text: str, default_type: AddressType = AddressType.MSGR2) -> Self:
        """Parse ``[v2:IP:PORT/NONCE,v1:IP:PORT/NONCE]``, the same without brackets, or a single address.

        Raises:
            LocalError: an address is malformed.
        """
        return cls(_vector(text.strip(), default_type))

    @property
    def front(self) -> EntityAddr:
        """The first address; blank if there is none."""
        return self.addrs[0] if self.addrs else BLANK

    def legacy_addr(self) -> EntityAddr:
        """The first msgr v1 address; blank if there is none."""
        return self._first(AddressType.LEGACY)

    def msgr2_addr(self) -> EntityAddr:
        """The first msgr v2 address; blank if there is none, as for pure clients, whose address has type ANY."""
        return self._first(AddressType.MSGR2)

    def _first(self, addr_type: AddressType) -> EntityAddr:
        return next((addr for addr in self.addrs if addr.type is addr_type), BLANK)

    def encode(self, encoder: Encoder, features: int = ALL_FEATURES) -> None:
        """Append the vector; for peers without MSG_ADDR2 only the msgr v1 address."""
        if not has_feature(features, Feature.MSG_ADDR2):
            self.legacy_addr().encode(encoder, features)
            return
        encoder.u8(_VECTOR_MARKER)
        encoder.u32(len(self.addrs))
        for addr in self.addrs:
            addr.encode(encoder, features)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode a vector, or a single address in either form as a vector of one.

        Raises:
            DecodeError: the bytes are too short or malformed, or there are more than :data:`MOST_ADDRS` addresses.
        """
        marker = decoder.u8()
        if marker == _VECTOR_MARKER:
            return cls(tuple(decoder.sequence(lambda: EntityAddr.decode(decoder), _SHORTEST_FORM_B, MOST_ADDRS)))
        return cls((_decode_marked(marker, decoder),))


@lru_cache(1024)
def _vector(text: str, default_type: AddressType) -> tuple[EntityAddr, ...]:
    """Parse a vector in Ceph's text form; raises as :meth:`AddrVec.parse`."""
    inner = text[1:-1] if _is_bracketed_list(text) else text
    if not inner.strip():
        if text == "[]":
            return ()
        raise LocalError(f"{text!r} holds no address; accepted: {_ACCEPTED}, or a comma-separated list of them")
    return tuple(EntityAddr.parse(part, default_type) for part in inner.split(","))


def _decode_marked(marker: int, decoder: Decoder) -> EntityAddr:
    """Decode an address whose first byte was read already."""
    if marker == _FORM_A_MARKER:
        return _decode_form_a(decoder)
    if marker == _FORM_B_MARKER:
        return _decode_form_b(decoder)
    raise DecodeError(f"address marker {marker} where 0, 1 or (for a vector) 2 is known")


def _decode_form_a(decoder: Decoder) -> EntityAddr:
    """Decode form A after its first byte, 0."""
    decoder.skip(3)
    nonce = decoder.u32()
    (family,) = _FAMILY_BE.unpack(decoder.raw(2))
    addr_type = AddressType.LEGACY if family else AddressType.NONE
    return _from_sockaddr(addr_type, nonce, family, decoder.raw(_STORAGE_SIZE - 2))


def _decode_form_b(decoder: Decoder) -> EntityAddr:
    """Decode form B after its first byte, 1."""
    body = decoder.versioned(1)
    type_number, nonce, size = body.u32(), body.u32(), body.u32()
    try:
        addr_type = AddressType(type_number)
    except ValueError:
        raise DecodeError(f"unknown address type {type_number}") from None
    if not size:
        return EntityAddr(addr_type, nonce)
    family = body.u16()
    if not _FAMILY_LE.size <= size <= _SOCKADDR_SIZES.get(family, 0):
        raise DecodeError(f"socket address of {size} bytes, family {family}")
    rest = body.raw(size - _FAMILY_LE.size)
    return _from_sockaddr(addr_type, nonce, family, rest.ljust(_STORAGE_SIZE, b"\0"))


def _from_sockaddr(addr_type: AddressType, nonce: int, family: int, rest: bytes) -> EntityAddr:
    """Create an address from the bytes of a sockaddr after its family, padded for any family."""
    if family == AddressFamily.INET:
        port, ip = _INET.unpack_from(rest)
        return EntityAddr(addr_type, nonce, port, ip)
    if family == AddressFamily.INET6:
        port, flowinfo, ip = _INET6.unpack_from(rest)
        (scope_id,) = _SCOPE_LE.unpack_from(rest, _INET6.size)
        return EntityAddr(addr_type, nonce, port, ip, flowinfo, scope_id)
    if family == AddressFamily.UNSPEC:
        return EntityAddr(addr_type, nonce)
    raise DecodeError(f"unknown address family {family}")


def _is_bracketed_list(text: str) -> bool:
    """True if one pair of brackets encloses everything, and not just a single IPv6 address."""
    if not (text.startswith("[") and text.endswith("]")):
        return False
    try:
        IPv6Address(text[1:-1])
    except ValueError:
        pass
    else:
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if not depth:
            return position == len(text) - 1
    return False
