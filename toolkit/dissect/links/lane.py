"""One direction of a link with known frame borders, and the consumer of its frames."""

from abc import ABC, abstractmethod
from typing import Any, Protocol

from messenger.denc.codec import Buffer
from messenger.errors import PeerError
from toolkit.dissect.frames import DecodedFrame
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.link import DecodedLink


class OpenPhase(Protocol):
    """Reads the frames of open links, the part of decoding that needs speed."""

    def frames(self, lane: "FlowLane", view: memoryview, at: int) -> tuple[int, PeerError | None]:
        """Read whole frames from ``view[at:]`` by ``lane.reader``, up to one that is incomplete or malformed.

        Messages whose type is in ``KEY_MESSAGES`` must be passed to ``lane.key_message``; compressed frames may be
        decompressed by :meth:`V2Lane.restored`.

        Args:
            lane: a :class:`V1Lane` on a v1 link, a :class:`V2Lane` on v2.
            view: valid until this returns, as are slices of it that a reader returned.
            at: offset of the first frame in the view; ``lane.flow.offset + at`` is its offset in the direction,
                and ``lane.flow.moment(lane.flow.offset + stop)`` gives time and packet of its completion.

        Returns:
            The offset of the first frame not read, and what is wrong with it; None if it is only incomplete. The
            lane then finds everything that is wrong and emits the record, or searches for the next frame.
        """


_LARGE_BYTES = 1 << 20
"""Frames of this size or more are not copied out of memory that belongs to them alone."""


class RecordPhase:
    """Makes a record of each frame."""

    def frames(self, lane: "FlowLane", view: memoryview, at: int) -> tuple[int, PeerError | None]:
        """Read whole frames from ``view[at:]`` by ``lane.reader``, up to one that is incomplete or wrong."""
        end = len(view)
        next_frame = lane.reader.next_frame
        # Decryption in owned memory would overwrite the frame's bytes.
        owned = lane.flow.owned and lane.mode == "crc" and end - at >= _LARGE_BYTES
        try:
            while at < end:
                found = next_frame(view, at, end, owned=owned)
                if found is None:
                    break
                lane.put(view, at, found)
                at = found[0]
        except PeerError as error:
            return at, copied(error)
        return at, None


def copied(error: PeerError) -> PeerError:
    """Copy the error without its traceback, which refers to slices of the view."""
    return PeerError(error.reason, error.detail)


def wire_of(flow: Flow, view: memoryview, at: int, stop: int) -> Buffer:
    """Return the bytes of a frame for its record."""
    part = view[at:stop]
    return part if flow.owned and stop - at >= _LARGE_BYTES else part.tobytes()


class FlowLane(ABC):
    """One direction of a link of either protocol.

    Args:
        link: the link.
        flow: the direction.
        protocol: protocol in the records.
        mode: mode in the records.
        reader: splits the flow into frames.
        phase: reads the frames.
    """

    def __init__(
        self,
        link: DecodedLink,
        flow: Flow,
        protocol: str,
        mode: str,
        reader: Any,  # noqa: ANN401 - of either protocol
        phase: OpenPhase,
    ) -> None:
        self.link = link
        self.flow = flow
        self.protocol = protocol
        self.mode = mode
        self.reader = reader
        self.phase = phase
        self.features = 0
        """Negotiated features, by which payloads are decoded."""
        self.waiting = False
        """True if the phase stopped because the other flow comes first."""

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""
        flow, direction = self.flow, self.flow.direction
        view = flow.view
        if not view or len(view) < flow.needed:
            return False
        at = 0
        while True:
            self.waiting = False
            at, error = self.phase.frames(self, view, at)
            if error is None or self.link.readings[direction] is not self:
                break
            stop = self.mend(view, at, error)
            if stop is None:
                break
            at = stop
        flow.consume(at)
        changed = self.link.readings[direction] is not self
        flow.needed = 0 if changed or self.waiting or not flow.view else self.needed()
        return at > 0 or changed

    def needed(self) -> int:
        """Length in bytes of the incomplete frame; 0 if it is not known yet."""
        needed: int = self.reader.needed
        return needed

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return self.waiting

    def disorder(self) -> None:  # noqa: B027 - by default a lane does not wait
        """Read on without the bytes of the other flow, which will not come."""

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return 0

    def close(self, why: str) -> None:
        """Record the bytes left over, because the next ones are missing or the flow has ended."""
        flow = self.flow
        left = len(flow.view)
        if left:
            start = flow.offset
            self.link.unknown(flow, start, left, f"{why} inside this frame")
            flow.consume(left)

    def snapped(self) -> DecodedFrame | None:
        """Return the record of the incomplete message at the beginning of the view, without its contents.

        The next frame is then read after its end. None if the header is incomplete or proves nothing.
        """
        return None

    @abstractmethod
    def put(self, view: memoryview, at: int, found: Any) -> object:  # noqa: ANN401 - of either protocol
        """Emit the record of a frame that the reader returned."""

    @abstractmethod
    def mend(self, view: memoryview, at: int, error: PeerError) -> int | None:
        """Emit a record of a malformed frame.

        Returns:
            The offset of the next frame; None if more bytes are needed, or if another reading searches for it.
        """

    @abstractmethod
    def lost(self, size_bytes: int) -> None:
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
