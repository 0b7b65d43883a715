"""Parsers of the values in rules: numbers, times, rates, names, bytes."""

import math
import re

_LONGEST_S = 86_400.0
_TIME = re.compile(r"([0-9.e+-]+)(ms|s)")
_RATE = re.compile(r"([0-9.e+-]+)(|K|M|G)B/s")
_THOUSANDS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def number(text: str) -> int:
    """Parse a whole number, decimal or 0x…; raises ValueError."""
    if len(text) > 20:
        raise ValueError(text)
    return int(text, 0)


def count(text: str) -> int:
    """Parse a whole number of at least 1; raises ValueError."""
    value = number(text)
    if value < 1:
        raise ValueError(text)
    return value


def seconds(text: str) -> float:
    """Parse a time such as 200ms or 1.5s; raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    value = float(found[1]) / (1000 if found[2] == "ms" else 1)
    if not 0 <= value <= _LONGEST_S:
        raise ValueError(text)
    return value


def rate(text: str) -> float:
    """Parse a rate such as 500B/s or 10KB/s, in bytes per second; raises ValueError."""
    found = _RATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    value = float(found[1]) * _THOUSANDS[found[2]]
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(text)
    return value


def name(text: str) -> str:
    """Check a name given by the user; raises ValueError."""
    if _NAME.fullmatch(text) is None:
        raise ValueError(text)
    return text


def hex_bytes(text: str) -> bytes:
    """Parse bytes in hex, ``-`` for none; raises ValueError."""
    return b"" if text == "-" else bytes.fromhex(text)


def assignment(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE; raises ValueError."""
    left, sign, right = text.partition("=")
    if not sign or not right or not re.fullmatch(r"[a-z_][a-z0-9_.]*", left):
        raise ValueError(text)
    return left, right


TIME = "a time like 200ms or 1.5s"
RATE = "a rate like 500B/s, 10KB/s or 1MB/s"
BYTE = "a number of a byte (negative: from the end)"
HEX = "bytes as hex, - for none"
NAME = "a name of letters, digits, _ . and -"
ASSIGNMENT = "FIELD=VALUE, without blanks"
