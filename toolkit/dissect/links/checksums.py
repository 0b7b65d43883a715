"""Computes crcs at many offsets at once, to search bytes of any content.

With seed 0 Ceph's crc is linear: the crc of a string is the xor of the crcs of its bytes, each at its place among
zeros. So a table per place reduces the search to operations on whole columns (docs/protocol.md §1.4).
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from messenger.crc import crc32c

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
_Tables = npt.NDArray[np.uint32]


@cache
def _tables(size: int) -> _Tables:
    tables = np.zeros((size, 256), np.uint32)
    for at in range(size):
        behind = bytes(size - at - 1)
        tables[at] = [crc32c(bytes([value]) + behind, 0) for value in range(256)]
    return tables


def that_fit(data: Bytes, places: Places, size: int) -> Places:
    """Return the offsets at which ``size`` bytes are followed by their crc with seed 0."""
    if not len(places):
        return places
    found = np.zeros(len(places), np.uint32)
    for at, table in enumerate(_tables(size)):
        found ^= table[data[places + at]]
    for at in range(4):
        fits = data[places + size + at] == (found >> 8 * at & 0xFF)
        places, found = places[fits], found[fits]
    return places
