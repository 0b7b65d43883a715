"""Finding the first frame of a link that the capture has from the middle on."""

from messenger.v2.framing import SECURE_HEAD_SIZE, CrcReader, FrameCaches, RawReader
from messenger.v2.preamble import PREAMBLE_SIZE
from messenger.v2.rev0 import Rev0CrcReader
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys.nonces import NonceTables
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.link import LIMIT_BYTES, DecodedLink
from toolkit.dissect.links.sealed import SealedFrames
from toolkit.dissect.links.search import Proof, frame_fits, preamble_places
from toolkit.dissect.links.search_v1 import V1Search

_MOST_PLACES = 128
"""Beginnings of packets at which a sealed frame is looked for, in each direction."""


class NoSearch:
    """Finds nothing: the first bytes of the flow have shown that it is no messenger's."""

    exhausted = False

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:  # noqa: ARG002 - see Search
        """Search ``view[start:]`` for a frame."""
        return None, len(view)


class MidstreamSearch:
    """For frames that begin with a crc (messages of v1, frames of v2.1 and 2.0), and for sealed ones of v2.1."""

    exhausted = False

    def __init__(self, link: DecodedLink, flow: Flow) -> None:
        self._v1 = V1Search(footer_known=False)
        self._readers: dict[str, RawReader] = {"v2.1": CrcReader(LIMIT_BYTES), "v2.0": Rev0CrcReader(LIMIT_BYTES)}
        self._sealed = _SealedSearch(link, flow)

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        """Search ``view[start:]`` for a frame."""
        v2, next_v2 = self._find_v2(view, start)
        v1, next_v1 = self._v1.find(view if v2 is None else view[: v2.at], start)
        if v1 is not None:
            return v1, v1.at
        if v2 is not None:
            return v2, v2.at
        sealed, next_sealed = self._sealed.find(view, start)
        return sealed, sealed.at if sealed is not None else min(next_v2, next_v1, next_sealed)

    def _find_v2(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        for at in preamble_places(view, start):
            for protocol, reader in self._readers.items():
                fits = frame_fits(view, at, reader, rev1=protocol == "v2.1", strict=True)
                if fits is None:
                    return None, at
                if fits:
                    return Proof(at, protocol=protocol), at
        return None, len(view)


class _SealedSearch:
    """For frames of secure mode at the beginnings of packets, by the secrets of a key log.

    Each place is tried once. A sender writes whole frames with one call, so some packets begin with a frame.
    """

    def __init__(self, link: DecodedLink, flow: Flow) -> None:
        self._link = link
        self._flow = flow
        self._places_left = _MOST_PLACES
        self._tried = -1
        """Offset in the direction up to which places have been tried."""

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        """Search ``view[start:]`` for a frame."""
        midstream = self._link.keys.midstream
        known = self._link.keys.connection_secret
        secrets = [known] if known else midstream.candidates()
        if not secrets:
            return None, len(view)
        tables = midstream.tables = midstream.tables or NonceTables()
        if tables.exhausted:
            return None, len(view)
        places, next_at = self._places(view, start)
        for secret in secrets:
            for sender in Direction:
                for at in places:
                    proof = _proof(tables, secret, sender, view, at)
                    if proof is not None:
                        return proof, at
        return None, next_at

    def _places(self, view: memoryview, start: int) -> tuple[list[int], int]:
        """Return the places to try now, and where to go on when there is more."""
        places: list[int] = []
        for at in self._flow.packets_from(start):
            if self._flow.offset + at <= self._tried:
                continue
            if not self._places_left:
                break
            if at + SECURE_HEAD_SIZE > len(view):
                return places, at
            self._places_left -= 1
            self._tried = self._flow.offset + at
            places.append(at)
        return places, len(view)


def _proof(tables: NonceTables, secret: bytes, sender: Direction, view: memoryview, at: int) -> Proof | None:
    """The frame at ``at``, if the secret opens its head."""
    nonce = tables.nonce(secret, sender, view[at : at + PREAMBLE_SIZE].tobytes())
    if nonce is None:
        return None
    sealed = SealedFrames(secret, sender, rev1=True, caches=FrameCaches(), start=None)
    if sealed.opened(view[at : at + SECURE_HEAD_SIZE], nonce) is None:
        return None
    return Proof(at, nonce, "v2.1", secret, sender)
