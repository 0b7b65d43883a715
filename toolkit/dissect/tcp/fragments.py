"""Reassembles IP fragments (RFC 791, RFC 8200)."""

from collections import Counter
from collections.abc import Hashable

_MOST_DATAGRAMS = 1024
_MOST_BYTES = 1 << 22
_PIECE_COST_BYTES = 256
"""Memory that a fragment takes besides its bytes."""
_LONGEST_DATAGRAM = 1 << 16
_UNFINISHED = "IP fragments of packets that are not in the capture as a whole"


class _Datagram:
    __slots__ = ("cost_bytes", "pieces", "present_bytes", "size")

    def __init__(self) -> None:
        self.pieces: dict[int, bytes] = {}
        self.size: int | None = None
        self.present_bytes = 0
        self.cost_bytes = 0

    def joined(self) -> bytes | None:
        """Return the datagram if no fragment is missing; of overlapping bytes, those of the earlier offset."""
        if self.size is None or self.present_bytes < self.size:
            return None
        whole = bytearray()
        for offset in sorted(self.pieces):
            if offset > len(whole):
                return None
            whole += self.pieces[offset][len(whole) - offset :]
        return bytes(whole[: self.size]) if len(whole) >= self.size else None


class Fragments:
    """Datagrams of which some fragments have come. Their number is bounded: the oldest are dropped.

    Args:
        skipped: counts fragments of datagrams that were never complete.
    """

    def __init__(self, skipped: Counter[str]) -> None:
        self._skipped = skipped
        self._datagrams: dict[Hashable, _Datagram] = {}
        self._cost_bytes = 0

    def add(self, key: Hashable, offset: int, payload: bytes, *, more: bool) -> bytes | None:
        """Add a fragment; returns the payload of the datagram if it is complete now, else None.

        Args:
            key: identifies the datagram.
            offset: offset of the fragment in the datagram.
            payload: the fragment's bytes.
            more: True unless it is the end of the datagram.
        """
        if offset + len(payload) > _LONGEST_DATAGRAM:
            self.refuse()
            return None
        datagram = self._datagrams.get(key)
        if datagram is None:
            datagram = self._datagrams[key] = _Datagram()
        cost = len(payload) + _PIECE_COST_BYTES
        if offset not in datagram.pieces:
            datagram.pieces[offset] = payload
            datagram.present_bytes += len(payload)
            datagram.cost_bytes += cost
            self._cost_bytes += cost
        if not more:
            datagram.size = offset + len(payload)
        whole = datagram.joined()
        if whole is not None:
            self._forget(key)
        while self._cost_bytes > _MOST_BYTES or len(self._datagrams) > _MOST_DATAGRAMS:
            self._give_up(next(iter(self._datagrams)))
        return whole

    def refuse(self) -> None:
        """Count a fragment that cannot be used."""
        self._skipped[_UNFINISHED] += 1

    def finish(self) -> None:
        """Count all fragments of incomplete datagrams."""
        for key in list(self._datagrams):
            self._give_up(key)

    def _give_up(self, key: Hashable) -> None:
        self._skipped[_UNFINISHED] += len(self._datagrams[key].pieces)
        self._forget(key)

    def _forget(self, key: Hashable) -> None:
        self._cost_bytes -= self._datagrams.pop(key).cost_bytes
