"""Text for charts: its width, how much of it fits, and durations."""

import re

_NARROW = frozenset(" .,:;'|!()[]iljtfrI·")
_WIDE = frozenset("mwMW@%→…")
_EM_NARROW, _EM_LOWER, _EM_UPPER, _EM_WIDE = 0.36, 0.61, 0.72, 0.98
"""Widths in em of DejaVu Sans, the widest of the fonts likely to be used."""


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot contain, and control characters: a peer's bytes may put them into a history."""


def printable(text: str) -> str:
    """Replace every character that XML cannot contain."""
    return _UNPRINTABLE.sub("\ufffd", text)


def width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels at a font size, rather too large than too small."""
    total = 0.0
    for char in text:
        if char in _NARROW:
            total += _EM_NARROW
        elif char in _WIDE or ord(char) > 0x2E80:
            total += _EM_WIDE
        else:
            total += _EM_UPPER if char.isupper() else _EM_LOWER
    return total * size


def fit(text: str, size: float, room: float) -> str:
    """Return as much of a text as fits, ending in … if it is cut; empty if hardly anything fits."""
    if width(text, size) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if width(text[:middle], size) + size <= room:
            low = middle
        else:
            high = middle - 1
    kept = text[:low].rstrip()
    return f"{kept}…" if len(kept) > 1 else ""


def fit_parts(text: str, size: float, room: float) -> str:
    """Return as many of the parts between `` · `` as fit; the first one is cut if it is too long."""
    parts = text.split(" · ")
    while len(parts) > 1 and width(" · ".join(parts), size) > room:
        parts.pop()
    return fit(" · ".join(parts), size, room)


def duration(seconds: float) -> str:
    """Format a duration with three digits in a suitable unit."""
    if seconds >= 99.95:
        return f"{seconds:,.0f} s"
    if seconds >= 0.9995:
        return f"{seconds:.3g} s"
    if seconds >= 0.9995e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
