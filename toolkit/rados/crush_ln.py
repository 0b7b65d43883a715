"""CRUSH's logarithm: binary, times 2**44, by tables whose rounding is part of it (docs/protocol.md §6.8)."""

from decimal import Decimal, localcontext
from functools import cache

_ONE = 1 << 48
_DIGITS = 40
_LL_OFFSET = 0x147700000
_LAST_LH = 0xFFFF00000000

# Entries where the historical table differs from its own formula.
_WRONG_LL = """
    56:a2b07f3458 127:16df6ca19bd 134:182b07f3458 181:209c06e6212 184:212b07f3458 188:21d6a73a78f 193:22c23679b4e
    198:23a2c3b0ea4 199:23d13ee805b 200:24035e9221f 203:247ed646bfe 207:25492644d65 210:25d13ee805b 212:26296453882
    216:26d32f798a9 222:27e6580aecb 225:287bdbf5255 227:28d13ee805b 228:29035e9221f 229:29296453882 231:29902a37aab
    233:29deabd1083 235:2a4c7605d61 236:2a7bdbf5255 237:2a96056dafc 238:2ac3daf14ef 239:2af1b019eca 240:2b296453882
    241:2b5d022d80f 243:2ba9012e713 244:2bd6d4901cc 245:2c04a796cf6 246:2c327a428a6 247:2c61a5e8f4c 248:2c8e1e891f6
    249:2cbbf023fc2 250:2ce9c163e6e 251:2d179248e13 252:2d4562d2ec6 253:2d73330209d 254:2da102d63b0 255:2dced24f814
"""


def _floor_log2(numerator: int, denominator: int) -> int:
    """The binary logarithm of a fraction, in units of 2**-48, rounded down."""
    with localcontext() as context:
        context.prec = _DIGITS
        return int(_ONE * (Decimal(numerator) / denominator).ln() / Decimal(2).ln())


@cache
def tables() -> tuple[list[int], list[int], list[int]]:
    """Return the reciprocals and logarithms of the upper bits, and the logarithms of the lower bits."""
    reciprocals = [-(-_ONE * 128 // (128 + k)) for k in range(129)]
    upper = [_floor_log2(128 + k, 128) for k in range(128)] + [_LAST_LH]
    lower = [0, 0x2E2A60A00, *(_floor_log2(32768 + k, 32768) + _LL_OFFSET for k in range(2, 256))]
    for entry in _WRONG_LL.split():
        k, _, value = entry.partition(":")
        lower[int(k)] = int(value, 16)
    return reciprocals, upper, lower


@cache
def crush_ln(u: int) -> int:
    """The logarithm of ``u + 1``, for ``u`` of 16 bits; 2**48 at the most."""
    reciprocals, upper, lower = tables()
    x, exponent = u + 1, 15
    while not x & 0x18000:
        x <<= 1
        exponent -= 1
    k = (x >> 8) - 128
    t = x * reciprocals[k] >> 48
    return (exponent << 44) + (upper[k] + lower[t & 0xFF] >> 4)
