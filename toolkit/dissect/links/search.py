"""Finds the next frame after a gap, or in the middle of a link.

An offset counts as the beginning of a frame if a crc proves it; in secure mode, if it decrypts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Protocol

import numpy as np

from messenger.crc import crc32c
from messenger.errors import PeerError
from messenger.v2.framing import SECURE_HEAD_SIZE, RawReader
from messenger.v2.preamble import PREAMBLE_SIZE
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import Verdict
from toolkit.dissect.links.borders import read_crc_frame
from toolkit.dissect.links.checksums import Bytes, that_fit
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.link import DecodedLink
from toolkit.dissect.links.sealed import MOST_NONCES, SealedFrames

_U32 = Struct("<I")
_SEED = 0xFFFFFFFF
_TAGS = 22
_SEGMENTS = 4
_CHUNK_BYTES = 4 << 20
_LONGEST_PROOF_BYTES = 1 << 16
"""A frame that would need more bytes than this as a proof is accepted by its preamble alone."""
_SUSPECT_BYTES = 1 << 20
"""Maximum length of a frame with a wrong preamble that is shown as a frame."""
_MOST_TRIALS = 1 << 27
"""Limit of the pairs of offset and nonce that are tried for one gap in secure mode: a fraction of a second."""
_LOOP_TRIALS = 4096
"""Cost of starting to search an array, in trials."""
_MOST_IN_DOUBT = 1 << 18
_BLOCK = 16
_FLAGS = 26
_RESERVED = 27
"""Offsets in a preamble of the flags and of the reserved byte, which is 0 (docs/protocol.md §4.4)."""
_SHORTEST_PER_NONCE = 48
"""Bytes on the wire of the shortest operation after a preamble."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The beginning of a frame."""

    at: int
    nonce: int = 0
    """Secure mode: number of its first nonce."""
    protocol: str = ""
    """``v1``, ``v2.0`` or ``v2.1`` if several were searched for; else empty."""
    secret: bytes = field(default=b"", repr=False)
    """The connection secret that opens it, if the frame was found by one."""
    sender: Direction = Direction.TO_SERVER
    """With ``secret``: the direction whose nonces it uses. The roles of the ends may be a wrong guess."""


class Search(Protocol):
    """Searches for the beginning of a frame."""

    exhausted: bool
    """True if the search has cost too much and is given up."""

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        """Search ``view[start:]``.

        Returns:
            The first frame, or None; and the offset from which to continue: no frame begins before it.
        """


def preamble_places(view: memoryview, start: int) -> Iterator[int]:
    """Yield the offsets where a preamble with a right crc may begin."""
    last = len(view) - PREAMBLE_SIZE + 1
    for at in range(start, last, _CHUNK_BYTES):
        stop = min(at + _CHUNK_BYTES, last)
        chunk = np.frombuffer(view[at : stop + PREAMBLE_SIZE - 1], np.uint8)
        size = stop - at
        # Unsigned: 0 wraps around and is too large.
        likely = (chunk[:size] - 1 < _TAGS) & (chunk[1 : size + 1] - 1 < _SEGMENTS)
        likely &= (chunk[_FLAGS : size + _FLAGS] < 2) & (chunk[_RESERVED : size + _RESERVED] == 0)
        for place in that_fit(chunk, np.flatnonzero(likely), PREAMBLE_SIZE - 4).tolist():
            yield at + place


def frame_fits(view: memoryview, at: int, reader: RawReader, *, rev1: bool, strict: bool = False) -> bool | None:
    """True if the frame with a right preamble has another right crc; None while too little of it is there.

    Args:
        view: bytes with the frame.
        at: offset of its preamble.
        reader: reader of its flow, or any of that revision.
        rev1: True for msgr 2.1.
        strict: True if the revision is unknown, so that the preamble alone proves nothing.
    """
    try:
        layout = reader.layout(view[at : at + PREAMBLE_SIZE].tobytes())
    except PeerError:
        return False
    _, _, l0, *_, total = layout
    if total > reader.max_frame_bytes:
        return False
    if rev1:
        body = at + PREAMBLE_SIZE
        if not l0:
            return not strict
        if l0 > _LONGEST_PROOF_BYTES:
            return not strict
        if body + l0 + 4 > len(view):
            return None
        (crc,) = _U32.unpack_from(view, body + l0)
        return crc == crc32c(view[body : body + l0], _SEED) or (not crc and not strict)
    if total > _LONGEST_PROOF_BYTES:
        return not strict
    if at + total > len(view):
        return None
    broken = read_crc_frame(view, at, reader, rev1=False)
    return broken is not None and broken.crc is not Verdict.BAD and (not strict or broken.crc is Verdict.OK)


class CrcSearch:
    """Searches for frames of crc mode of a known revision."""

    exhausted = False

    def __init__(self, reader: RawReader, *, rev1: bool) -> None:
        self._reader = reader
        self._rev1 = rev1

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        """Search ``view[start:]`` for a frame."""
        for at in preamble_places(view, start):
            fits = frame_fits(view, at, self._reader, rev1=self._rev1)
            if fits is None:
                return None, at
            if fits:
                return Proof(at), at
        return None, max(start, len(view) - PREAMBLE_SIZE + 1)


class SealedSearch:
    """Searches for frames of secure mode, whose offset and nonce are both unknown.

    Args:
        sealed: opens the frames.
        flow: the flow to search.
        first: the lowest possible nonce of the next frame.
        missing_bytes: number of missing or doubtful bytes, which limits the nonces used meanwhile.
    """

    def __init__(self, sealed: SealedFrames, flow: Flow, first: int, missing_bytes: int) -> None:
        self._sealed = sealed
        self._flow = flow
        self._first = first
        # The frame that the hole begins in, those inside it, and the one that it ends in.
        each, shortest = (MOST_NONCES, _SHORTEST_PER_NONCE) if sealed.rev1 else (1, SECURE_HEAD_SIZE)
        self._count = each + missing_bytes // shortest + each + 1
        self._trials = 0
        self._streams: Bytes | None = None
        self.exhausted = self._count > _MOST_IN_DOUBT

    def find(self, view: memoryview, start: int) -> tuple[Proof | None, int]:
        """Search ``view[start:]`` for a frame."""
        last = len(view) - PREAMBLE_SIZE
        step = 1 if self._sealed.start is None else _BLOCK
        if self._sealed.start is not None:
            # Every operation takes whole blocks and a tag of one block, so all distances are whole blocks.
            start += (self._sealed.start - self._flow.offset - start) % _BLOCK
        if start > last or self.exhausted:
            return None, start
        if self._streams is None:
            raw = self._sealed.key_streams(self._first, self._count)
            self._streams = np.frombuffer(raw, np.uint8).reshape(self._count, PREAMBLE_SIZE)
        places = range(start, last + 1, step)
        self._trials += len(places) * self._count + min(len(places), self._count) * _LOOP_TRIALS
        if self._trials > _MOST_TRIALS:
            self.exhausted = True
            return None, start
        found = self._try(view, places)
        return found, places[-1] + step if found is None else found.at

    def _try(self, view: memoryview, places: range) -> Proof | None:
        """Return the first of these offsets at which one of the nonces decrypts a preamble."""
        whole = np.frombuffer(view, np.uint8)
        assert self._streams is not None
        best: Proof | None = None
        for at, number in self._likely(whole, places, self._streams):
            if best is not None and at >= best.at:
                continue
            head = whole[at : at + PREAMBLE_SIZE] ^ self._streams[number]
            if head[_FLAGS] < 2 and 0 < head[1] <= _SEGMENTS and 0 < head[0] <= _TAGS:
                raw = head.tobytes()
                if crc32c(raw[:-4], 0) == _U32.unpack_from(raw, PREAMBLE_SIZE - 4)[0]:
                    best = Proof(at, self._first + number)
        return best

    @staticmethod
    def _likely(whole: Bytes, places: range, streams: Bytes) -> Iterator[tuple[int, int]]:
        """Yield offsets with the nonces that make the reserved byte of a preamble there 0."""
        hidden = whole[places.start + _RESERVED : places[-1] + _RESERVED + 1 : places.step]
        if len(places) < len(streams):
            for at, byte in zip(places, hidden.tolist(), strict=True):
                yield from ((at, number) for number in np.flatnonzero(streams[:, _RESERVED] == byte).tolist())
        else:
            for number, byte in enumerate(streams[:, _RESERVED].tolist()):
                yield from ((places[index], number) for index in np.flatnonzero(hidden == byte).tolist())


class Resync:
    """Skips a flow up to the next proven frame.

    Args:
        link: the link.
        flow: the direction.
        search: the search.
        found: continues the reading; called with the proof, the bytes before it that may be a frame of doubtful
            length, and their length (0: they are no frame); returns True if it has recorded these.
        whole: called if nothing follows; returns True if all bytes left are such a frame and it has recorded them.
        wrong: what is wrong with the frame at the beginning; None after a gap.
        crc: verdict on its crcs.
        auth: verdict on its authentication.
    """

    CONTEXT = "behind a gap"
    """Reason for skipping the bytes, if nothing is known to be wrong with them."""

    def __init__(
        self,
        link: DecodedLink,
        flow: Flow,
        search: Search,
        found: Callable[[Proof, memoryview, int], bool],
        *,
        whole: Callable[[memoryview], bool] | None = None,
        wrong: str | None = None,
        crc: Verdict = Verdict.NONE,
        auth: Verdict = Verdict.NONE,
    ) -> None:
        self._link = link
        self._flow = flow
        self._search = search
        self._found = found
        self._whole = whole
        self._wrong = wrong
        self._crc = crc
        self._auth = auth
        self._skipped = link.readings[flow.direction].unrecorded_bytes()
        self._at = 0 if wrong is None else 1

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""
        flow = self._flow
        view = flow.view
        if len(view) <= self._at:
            return False
        proof, self._at = self._search.find(view, self._at)
        if proof is None:
            if self._search.exhausted:
                wrong = self._wrong or self.CONTEXT
                why = f"{wrong}; the next frame was not found with a reasonable effort"
                self._link.unreadable(flow, why, self._auth)
                return True
            if self._wrong is None or self._skipped or self._at > _SUSPECT_BYTES:
                flow.needed = 0
                self._skip(min(self._at, len(view)))
            return False
        suspect = self._wrong is not None and not self._skipped and proof.at <= _SUSPECT_BYTES
        if not self._found(proof, view, proof.at if suspect else 0):
            error = self._wrong or self.CONTEXT
            self._record_unknown(self._skipped + proof.at, flow.offset + proof.at, error)
        flow.consume(proof.at)
        return True

    def _skip(self, size_bytes: int) -> None:
        self._flow.consume(size_bytes)
        self._skipped += size_bytes
        self._at -= size_bytes

    def _record_unknown(self, length: int, stop: int, error: str) -> None:
        self._link.unknown(self._flow, stop - length, length, error, self._auth, self._crc)

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return self._skipped

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return False

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""

    def lost(self, size_bytes: int) -> None:  # noqa: ARG002 - one more gap makes no difference
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
        self._skipped = 0
        self._at = 0
        self._wrong = None
        self._crc = self._auth = Verdict.NONE

    def close(self, why: str) -> None:
        """Record the bytes left over, because the next ones are missing or the flow has ended."""
        flow = self._flow
        size = len(flow.view)
        suspect = self._wrong is not None and not self._skipped and 0 < size <= _SUSPECT_BYTES
        if suspect and self._whole is not None and self._whole(flow.view):
            flow.consume(size)
            return
        self._skip(size)
        error = self._wrong or f"{self.CONTEXT}; {why} before another frame"
        self._record_unknown(self._skipped, flow.offset, error)
        self._skipped = 0
