"""The decoder of one link: detects the protocol and chooses the readers (docs/protocol.md §3.2, §4.2)."""

from collections.abc import Callable
from functools import partial
from operator import setitem

from messenger.v2.framing import FrameCaches
from messenger.v2.wire import BANNER_PREFIX, V1_BANNER
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import CAPTURE_ENDS, DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.lane import FlowLane, OpenPhase, RecordPhase
from toolkit.dissect.links.link import DecodedLink
from toolkit.dissect.links.names import Names
from toolkit.dissect.links.search import Proof, Resync
from toolkit.dissect.links.search_midstream import MidstreamSearch, NoSearch
from toolkit.dissect.links.snapped import passed_over
from toolkit.dissect.links.v1 import V1Talk, lane_behind
from toolkit.dissect.links.v2 import V2Talk
from toolkit.dissect.stream import End, Ending, Gap, Run, Stream, StreamEvent

_LONGEST_WAIT_BYTES = 1 << 20
"""Limit of the bytes of one direction that wait for a frame of the other."""


class LinkDecoder:
    """Decodes one stream's bytes into records. Malformed bytes never raise.

    Args:
        stream: the connection.
        keys: keys, shared by the links of a capture.
        emit: called with each record; the caller numbers the records.
        names: entity names, shared by the links of a capture.
        open_phase: reads the frames of the link once it is open; by default each frame becomes a record.
        caches: frame caches, shared by the links of a capture.
    """

    def __init__(
        self,
        stream: Stream,
        keys: KeyBook,
        emit: Callable[[DecodedFrame], None],
        *,
        names: Names | None = None,
        open_phase: OpenPhase | None = None,
        caches: FrameCaches | None = None,
    ) -> None:
        phase = open_phase or RecordPhase()
        self._link = DecodedLink(stream, keys, emit, names or Names(), phase, caches or FrameCaches())
        self._v1: V1Talk | None = None
        self._v2: V2Talk | None = None
        self._finished = False
        for flow in self._link.flows.values():
            self._link.readings[flow.direction] = _Opening(self, self._link, flow)

    @property
    def is_messenger(self) -> bool:
        """True if a banner or a frame proved that this is a messenger's link."""
        return self._link.proven

    @property
    def introduces(self) -> bool:
        """True for a TCP connection that introduced a link over RDMA."""
        return self._link.stream.introduces

    @property
    def pending_bytes(self) -> int:
        """Memory in bytes that incomplete frames take."""
        flows = self._link.flows
        return flows[Direction.TO_SERVER].pending_bytes + flows[Direction.TO_CLIENT].pending_bytes

    @property
    def over(self) -> bool:
        """True if both directions have ended and all records are emitted."""
        return self._finished

    def take(self, event: StreamEvent) -> None:
        """Process the next event on the stream."""
        flow = self._link.flows[event.direction]
        if self._finished:
            return
        if self.introduces:  # its bytes are records of queue pairs, not frames
            self._finished = isinstance(event, End)
            return
        if isinstance(event, Run):
            flow.take(event)
            self._advance_one(event.direction)
            while flow.more():
                self._advance_one(event.direction)
            flow.keep()
        elif isinstance(event, Gap):
            self._gap(flow, event)
        else:
            self._end(event)

    def finish(self) -> None:
        """End of the capture: emit records for the bytes that are left."""
        self._finish(CAPTURE_ENDS)

    def _finish(self, why: str) -> None:
        if self._finished or self.introduces:
            return
        self._settle(final=True)
        for direction in Direction:
            self._link.readings[direction].close(why)
        self._finished = True

    def give_up(self) -> None:
        """Drop the incomplete frames, because they take too much memory."""
        for direction, flow in self._link.flows.items():
            if flow.view:
                reading = self._link.readings[direction]
                reading.close("no more memory for it")
                self._link.readings[direction].lost(0)
                flow.needed = 0
                flow.keep()

    # ---- reading

    def _advance(self) -> None:
        """Read both directions as far as possible: a frame of one may determine how to read the other."""
        readings, flows = self._link.readings, self._link.flows
        moved = True
        while moved:
            moved = False
            for direction in Direction:
                while readings[direction].step():
                    moved = True
        if any(flow.ended or len(flow.view) > _LONGEST_WAIT_BYTES for flow in flows.values()):
            self._settle(final=False)

    def _advance_one(self, direction: Direction) -> None:
        """Read a direction that has new bytes. Once the link is open, the other one does not depend on them."""
        link, readings = self._link, self._link.readings
        lane, other = readings[direction], readings[direction.other]
        if (
            isinstance(lane, FlowLane)
            and isinstance(other, FlowLane)
            and lane.phase is other.phase is link.phase
            and not (link.flows[direction].ended or link.flows[direction.other].ended)
        ):
            lane.step()
            if readings[direction] is lane and len(link.flows[direction].view) <= _LONGEST_WAIT_BYTES:
                return
        self._advance()

    def _settle(self, *, final: bool) -> None:
        """Stop a flow from waiting for bytes of the other flow that will not come."""
        link = self._link
        again = True
        while again:
            again = False
            for direction, flow in link.flows.items():
                other = link.flows[direction.other]
                if not link.readings[direction].waits():
                    continue
                if final or other.ended or len(flow.view) > _LONGEST_WAIT_BYTES:
                    link.readings[direction].disorder()
                    for each in Direction:
                        while link.readings[each].step():
                            again = True

    def _gap(self, flow: Flow, event: Gap) -> None:
        link, readings = self._link, self._link.readings
        rest: Gap | None = event
        if event.exact:
            rest = passed_over(readings[flow.direction], event, partial(setitem, readings, flow.direction))
        if rest is not None:
            readings[flow.direction].close("bytes are missing")
            link.gap(flow, rest)
            flow.skip(rest.size_bytes)
            flow.needed = 0
            readings[flow.direction].lost(rest.size_bytes)
            readings[flow.direction.other].disorder()
        self._advance()
        link.flows[flow.direction.other].keep()

    def _end(self, event: End) -> None:
        flows = self._link.flows
        flows[event.direction].ended = event.how
        if event.how is Ending.RESET:
            flows[event.direction.other].ended = event.how
        self._settle(final=False)
        if all(flow.ended for flow in flows.values()):
            self._finish("the connection was reset" if event.how is Ending.RESET else "the connection was closed")

    # ---- protocols

    def enter_v2(self, flow: Flow) -> bool | None:
        """Process the likely banner of v2 at the beginning of a flow; see :meth:`V2Talk.banner`."""
        self._v2 = self._v2 or V2Talk(self._link)
        return self._v2.banner(flow)

    def enter_v1(self, flow: Flow) -> None:
        """Process the banner of v1 at the beginning of a flow."""
        self._v1 = self._v1 or V1Talk(self._link)
        self._v1.enter(flow)

    def join(self, flow: Flow, proof: Proof, view: memoryview) -> None:
        """Read a flow from a frame in its middle on, because the capture lacks its beginning."""
        if proof.protocol == "v1":
            lane_behind(self._link, flow, view, proof.at)
        else:
            self._v2 = self._v2 or V2Talk(self._link)
            self._v2.join(flow, proof)


class _Opening:
    """Reads a flow whose protocol is unknown yet."""

    def __init__(self, decoder: LinkDecoder, link: DecodedLink, flow: Flow) -> None:
        self._decoder = decoder
        self._link = link
        self._flow = flow

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""
        flow = self._flow
        head = flow.view[: len(V1_BANNER)].tobytes()
        if not head:
            return False
        if head.startswith(BANNER_PREFIX):
            taken = self._decoder.enter_v2(flow)
            if taken is not None and not taken:
                self._elsewhere()
            return taken is not None
        if head == V1_BANNER:
            self._decoder.enter_v1(flow)
            return True
        if V1_BANNER.startswith(head) or BANNER_PREFIX.startswith(head):
            return False
        self._elsewhere()
        return True

    def _elsewhere(self) -> None:
        """Handle a flow without a banner: other traffic, or the middle of a link."""
        link, flow = self._link, self._flow
        searching = not link.stream.opening_seen
        link.readings[flow.direction] = _Unproven(self._decoder, link, flow, searching=searching)

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return 0

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return False

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""

    def close(self, why: str) -> None:
        """Record the bytes left over, because the next ones are missing or the flow has ended."""
        flow = self._flow
        left = len(flow.view)
        self._link.unknown(flow, flow.offset, left, f"{why} inside the banner")
        flow.consume(left)

    def lost(self, size_bytes: int) -> None:  # noqa: ARG002 - however many there are
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
        link, flow = self._link, self._flow
        link.readings[flow.direction] = _Unproven(self._decoder, link, flow, searching=True)


class _Unproven(Resync):
    """Reads a flow that is not known to be a messenger's.

    Args:
        decoder: decoder of its link.
        link: the link.
        flow: the flow.
        searching: True if it may be the middle of a messenger's flow; else its first bytes show that it is none.
    """

    CONTEXT = "no banner, and no frame that proves itself"

    def __init__(self, decoder: LinkDecoder, link: DecodedLink, flow: Flow, *, searching: bool) -> None:
        super().__init__(link, flow, MidstreamSearch(link, flow) if searching else NoSearch(), self._joined)
        self._decoder = decoder
        self._link = link
        # Such a flow is not read in the order of cause and effect.
        link.stream.batched = True

    def _joined(self, proof: Proof, view: memoryview, _at: int) -> bool:
        self._decoder.join(self._flow, proof, view)
        return False
