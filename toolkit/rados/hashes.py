"""The hashes of Ceph's placement: object names to placement groups, and CRUSH's own (docs/protocol.md §6.8)."""

from struct import Struct

_GOLDEN_RATIO = 0x9E3779B9
_SEED = 1315423911
_X = 231232
_Y = 1232
_MASK = 0xFFFFFFFF
_CHUNK = Struct("<III")
_CHUNK_SIZE = 12


def mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Bob Jenkins's mix of three 32-bit numbers."""
    a = (a - b - c & _MASK) ^ c >> 13
    b = (b - c - a & _MASK) ^ a << 8 & _MASK
    c = (c - a - b & _MASK) ^ b >> 13
    a = (a - b - c & _MASK) ^ c >> 12
    b = (b - c - a & _MASK) ^ a << 16 & _MASK
    c = (c - a - b & _MASK) ^ b >> 5
    a = (a - b - c & _MASK) ^ c >> 3
    b = (b - c - a & _MASK) ^ a << 10 & _MASK
    return a, b, (c - a - b & _MASK) ^ b >> 15


def rjenkins_str(data: bytes) -> int:
    """The hash of an object's name."""
    a, b, c = _GOLDEN_RATIO, _GOLDEN_RATIO, 0
    whole = len(data) - len(data) % _CHUNK_SIZE
    for x, y, z in _CHUNK.iter_unpack(data[:whole]):
        a, b, c = mix(a + x, b + y, c + z & _MASK)
    tail = data[whole:]
    # the lowest byte of the last word belongs to the length
    x, y, z = _CHUNK.unpack(tail[:8].ljust(8, b"\0") + b"\0" + tail[8:].ljust(3, b"\0"))
    return mix(a + x, b + y, c + z + len(data) & _MASK)[2]


def crush_hash32(a: int) -> int:
    """CRUSH's hash of one number. In all of these, negative numbers count as their 32 bits."""
    a &= _MASK
    _, _, h = mix(a, _X, _SEED ^ a)
    return mix(_Y, a, h)[2]


def crush_hash32_2(a: int, b: int) -> int:
    """CRUSH's hash of two numbers."""
    a, b = a & _MASK, b & _MASK
    a, b, h = mix(a, b, _SEED ^ a ^ b)
    _, a, h = mix(_X, a, h)
    return mix(b, _Y, h)[2]


def crush_hash32_3(a: int, b: int, c: int) -> int:
    """CRUSH's hash of three numbers."""
    a, b, c = a & _MASK, b & _MASK, c & _MASK
    a, b, h = mix(a, b, _SEED ^ a ^ b ^ c)
    c, x, h = mix(c, _X, h)
    y, a, h = mix(_Y, a, h)
    b, x, h = mix(b, x, h)
    return mix(y, c, h)[2]


def crush_hash32_4(a: int, b: int, c: int, d: int) -> int:
    """CRUSH's hash of four numbers."""
    a, b, c, d = a & _MASK, b & _MASK, c & _MASK, d & _MASK
    a, b, h = mix(a, b, _SEED ^ a ^ b ^ c ^ d)
    c, d, h = mix(c, d, h)
    a, x, h = mix(a, _X, h)
    y, b, h = mix(_Y, b, h)
    c, x, h = mix(c, x, h)
    return mix(y, d, h)[2]


def crush_hash32_5(a: int, b: int, c: int, d: int, e: int) -> int:
    """CRUSH's hash of five numbers."""
    a, b, c, d, e = a & _MASK, b & _MASK, c & _MASK, d & _MASK, e & _MASK
    a, b, h = mix(a, b, _SEED ^ a ^ b ^ c ^ d ^ e)
    c, d, h = mix(c, d, h)
    e, x, h = mix(e, _X, h)
    y, a, h = mix(_Y, a, h)
    b, x, h = mix(b, x, h)
    y, c, h = mix(y, c, h)
    d, x, h = mix(d, x, h)
    return mix(y, e, h)[2]
