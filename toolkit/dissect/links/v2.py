"""A v2 link from its banners on: how each frame of the handshake affects those that follow.

See docs/protocol.md §4.1.

The two directions are read in the order of cause and effect, whatever their order in the capture: a client's flow
waits after a request, and an answer is read after its request. A flow is read without the other one only if the
other one will not continue.
"""

from functools import reduce
from operator import and_

from messenger.cephx.exchange import ConMode
from messenger.compat import override
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import ALL_FEATURES, Msgr2Feature
from messenger.errors import PeerError
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.framing import ABORTED, Frame
from messenger.v2.preamble import COMPRESSED
from messenger.v2.revision import crc_frames
from messenger.v2.wire import (
    AuthDone,
    AuthSignature,
    ClientIdent,
    CompressionDone,
    CompressionRequest,
    ControlFrame,
    Hello,
    ServerIdent,
    SessionReconnect,
    SessionReconnectOk,
    Tag,
    decode_banner,
    decode_control,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, Verdict
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.lane import FlowLane, copied
from toolkit.dissect.links.link import LIMIT_BYTES, DecodedLink
from toolkit.dissect.links.sealed import SealedFrames
from toolkit.dissect.links.search import CrcSearch, Proof, SealedSearch
from toolkit.dissect.links.v2lane import Judged, V2Lane

_LONGEST_TRANSCRIPT_BYTES = 1 << 20
_REQUESTS = frozenset(
    {
        Tag.AUTH_REQUEST,
        Tag.AUTH_REQUEST_MORE,
        Tag.COMPRESSION_REQUEST,
        Tag.CLIENT_IDENT,
        Tag.SESSION_RECONNECT,
    }
)
_ANSWERS = frozenset(
    {
        Tag.AUTH_BAD_METHOD,
        Tag.AUTH_REPLY_MORE,
        Tag.AUTH_DONE,
        Tag.COMPRESSION_DONE,
        Tag.SERVER_IDENT,
        Tag.IDENT_MISSING_FEATURES,
        Tag.SESSION_RECONNECT_OK,
        Tag.SESSION_RESET,
        Tag.SESSION_RETRY,
        Tag.SESSION_RETRY_GLOBAL,
        Tag.WAIT,
    }
)
_NEVER_SENDS = {
    **dict.fromkeys(map(int, _REQUESTS), Direction.TO_CLIENT),
    **dict.fromkeys(map(int, _ANSWERS), Direction.TO_SERVER),
}
"""Direction in which a frame has no meaning."""
_DATA = frozenset({Tag.MESSAGE, Tag.ACK, Tag.KEEPALIVE2, Tag.KEEPALIVE2_ACK, ABORTED})
"""Frames that only an open link carries."""


class V2Talk:
    """The handshake of one link; processes the frames of both lanes until it is over."""

    def __init__(self, link: DecodedLink) -> None:
        self._link = link
        self._banners: dict[Direction, int] = {}
        self._lanes: dict[Direction, V2Lane] = {}
        self._asked = False
        self._signature_due = False
        self._ordered = True
        self._transcripts: dict[Direction, bytearray] = {way: bytearray() for way in Direction}
        self._whole = True  # the transcripts are
        self._kinds: dict[Direction, EntityType] = {}
        self._hello: Hello | None = None  # of the client
        self._reconnect: SessionReconnect | None = None
        self._client: ClientIdent | None = None
        self._request: CompressionRequest | None = None
        self._session_features: int | None = None

    # ---- beginnings

    def banner(self, flow: Flow) -> bool | None:
        """Process a banner; None while it is incomplete.

        Returns:
            False: it is malformed.
        """
        try:
            found = decode_banner(flow.view)
        except PeerError:
            return False
        if found is None:
            return None
        size, supported, required = found
        direction = flow.direction
        self._link.prove()
        self._banners[direction] = supported
        self._note(direction, flow.view[:size])
        time_ns, packet = flow.moment(flow.offset + size)
        self._link.emit(
            DecodedFrame(
                frame=-1,
                time_ns=time_ns,
                packet=packet,
                stream=self._link.stream,
                direction=direction,
                protocol="v2.1" if supported & Msgr2Feature.REVISION_1 else "v2.0",
                mode="crc",
                tag="BANNER",
                offset=flow.offset,
                length=size,
                crc=Verdict.NONE,
                auth=Verdict.NONE,
                wire=bytes(flow.view[:size]),
                read_fields=lambda: {"supported": supported, "required": required},
            )
        )
        flow.consume(size)
        self._link.readings[direction] = _BetweenBanners(self, flow)
        return True

    def both_banners(self) -> bool:
        """True if the banners of both sides were read, so that the revision of the frames is known."""
        return len(self._banners) == len(Direction)

    def enter(self, flow: Flow) -> V2Lane:
        """Read the frames of a flow from now on."""
        return self._lane(flow, rev1=bool(self._features & Msgr2Feature.REVISION_1))

    def close(self, flow: Flow, why: str) -> None:
        """Record the bytes left of a stream that ended before the other side's banner."""
        left = len(flow.view)
        self._link.unknown(flow, flow.offset, left, f"{why} before the other side's banner")
        flow.consume(left)

    @property
    def _features(self) -> int:
        return reduce(and_, self._banners.values())

    def join(self, flow: Flow, proof: Proof) -> None:
        """Read a flow from a frame in its middle on, because the capture lacks its beginning."""
        self._ordered = self._whole = False
        self._link.prove()
        lane = self._lane(flow, rev1=proof.protocol == "v2.1")
        if proof.secret:
            self._link.keys.take_secret(proof.secret)
            start = flow.offset + proof.at
            sealed = SealedFrames(proof.secret, proof.sender, rev1=True, caches=self._link.caches, start=start)
            lane.become_secure(sealed, proof.nonce)

    def _lane(self, flow: Flow, *, rev1: bool) -> V2Lane:
        msgr2_features = int(Msgr2Feature.REVISION_1) if rev1 else 0
        reader = crc_frames(msgr2_features, LIMIT_BYTES, self._link.caches)[0]
        lane = _HandshakeLane(self._link, flow, reader, self, rev1=rev1)
        lane.features = ALL_FEATURES
        self._lanes[flow.direction] = lane
        self._link.readings[flow.direction] = lane
        return lane

    # ---- frames

    def frames(self, lane: FlowLane, view: memoryview, at: int) -> tuple[int, PeerError | None]:
        """Read whole frames from ``view[at:]`` by ``lane.reader``, up to one that is incomplete or wrong."""
        assert isinstance(lane, V2Lane)
        end = len(view)
        try:
            while at < end:
                if not self.may_read(lane.flow.direction):
                    lane.waiting = True
                    break
                found = lane.reader.next_frame(view, at, end, owned=False)
                if found is None:
                    break
                stop: int = found[0]
                self._take(lane, view, at, found)
                at = stop
                if self._link.readings[lane.flow.direction] is not lane:
                    break
                if lane.phase is not self:
                    return lane.phase.frames(lane, view, at)
        except PeerError as error:
            return at, copied(error)
        return at, None

    def may_read(self, direction: Direction) -> bool:
        """True if the next frame of a direction does not depend on one of the other that was not read."""
        if not self._ordered or direction not in self._kinds:
            return True
        if direction is Direction.TO_SERVER:
            return not self._asked
        return self._asked or self._signature_due

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""
        self._ordered = False

    def incomplete(self) -> None:
        """Note that bytes of the handshake are missing."""
        self._whole = False

    def _take(self, lane: V2Lane, view: memoryview, at: int, found: Frame) -> None:
        judged = Judged(auth=lane.good)
        tag = found[1] & ~COMPRESSED if found[1] >= COMPRESSED else found[1]
        if tag == Tag.AUTH_SIGNATURE:
            self._judge_signature(lane, found, judged)
        control = lane.record(view, at, found, judged)
        self.passed(lane, tag, control, view[at : found[0]], lane.flow.offset + found[0])

    def passed(self, lane: V2Lane, tag: int, control: ControlFrame | None, wire: memoryview, stop: int) -> None:
        """Process a frame of the handshake; ``stop`` is the offset after it.

        A malformed frame keeps its place in the order and in the transcript, but has no ``control`` and no effect.
        """
        direction = lane.flow.direction
        if tag in _DATA:
            self._open()
            return
        if direction is _NEVER_SENDS.get(tag):
            return
        if tag in _REQUESTS:
            self._asked = True
        elif tag in _ANSWERS:
            self._asked = False
        elif tag == Tag.AUTH_SIGNATURE and direction is Direction.TO_CLIENT:
            self._signature_due = False
        if tag <= Tag.AUTH_DONE:
            self._note(direction, wire)
        if control is not None:
            self._link.keys.control(direction, control)
            self._follow(lane, control, stop)

    def _note(self, direction: Direction, wire: memoryview) -> None:
        transcript = self._transcripts[direction]
        if len(transcript) + len(wire) > _LONGEST_TRANSCRIPT_BYTES:
            self._whole = False
        else:
            transcript += wire

    def _judge_signature(self, lane: V2Lane, found: Frame, judged: Judged) -> None:
        """Verify AUTH_SIGNATURE: it covers all that its sender received until authentication was done (§4.7)."""
        if not self._whole:
            judged.error = "the signature covers bytes that the capture does not have"
            return
        try:
            control = decode_control(int(Tag.AUTH_SIGNATURE), found[2:], last=True)
        except PeerError:
            return
        assert isinstance(control, AuthSignature)
        verdict = self._link.keys.signature_verdict(control, self._transcripts[lane.flow.direction.other])
        if verdict is Verdict.BAD:
            judged.error = "the signature does not fit what its sender received"
        elif verdict is Verdict.NO_KEY:
            judged.error = f"missing: {self._link.keys.missing}"
        judged.auth = verdict

    # ---- effects of frames

    def _follow(self, lane: V2Lane, control: ControlFrame, stop: int) -> None:
        link, direction = self._link, lane.flow.direction
        if isinstance(control, Hello):
            self._kinds[direction] = control.entity_type
            lane.source = str(EntityName(control.entity_type))
            if direction is Direction.TO_SERVER:
                self._hello = control
        elif isinstance(control, AuthDone):
            self._signature_due = True
            if control.con_mode == ConMode.SECURE:
                self._go_secure(lane, stop)
        elif isinstance(control, CompressionRequest):
            self._request = control
        elif isinstance(control, CompressionDone):
            self._compress(control)
        elif isinstance(control, ClientIdent):
            self._client = control
            if direction in self._kinds:
                name = EntityName(self._kinds[direction], control.gid)
                link.names.learn(control.addrs, name)
                lane.source = str(name)
        elif isinstance(control, SessionReconnect):
            self._reconnect = control
            if direction in self._kinds:
                lane.source = str(link.names.name_at(control.addrs.front, self._kinds[direction]))
        elif isinstance(control, ServerIdent):
            self._granted(lane, control)
        elif isinstance(control, SessionReconnectOk):
            self._resumed(lane)

    def _granted(self, lane: V2Lane, control: ServerIdent) -> None:
        names, kind = self._link.names, self._kinds.get(lane.flow.direction)
        if kind is not None:
            name = EntityName(kind, control.gid)
            names.learn(control.addrs, name)
            lane.source = str(name)
        features = control.features_supported
        if self._client is not None:
            features &= self._client.features_supported
            names.learn_session(self._client.client_cookie, control.server_cookie, features)
        self._open(features)

    def _resumed(self, lane: V2Lane) -> None:
        names, kind = self._link.names, self._kinds.get(lane.flow.direction)
        if self._hello is not None and kind is not None:
            lane.source = str(names.name_at(self._hello.peer_addr, kind))
        asked = self._reconnect
        self._open(names.session_features(asked.client_cookie, asked.server_cookie) if asked else None)

    def _open(self, features: int | None = None) -> None:
        """Open the link: the order between the directions does not matter any more."""
        self._session_features = features = self._session_features if features is None else features
        for lane in self._lanes.values():
            lane.features = ALL_FEATURES if features is None else features
            lane.phase = self._link.phase
        # Messages of monitors contain keys for links that are opened directly afterwards.
        if EntityType.MON not in self._kinds.values():
            self._link.stream.batched = True

    def _compress(self, done: CompressionDone) -> None:
        agreed = done.is_compress and (self._request is None or self._request.is_compress)
        if agreed and done.method in list(Algorithm)[1:]:
            for lane in self._lanes.values():
                lane.compressor = new_compressor(Algorithm(done.method))

    def _go_secure(self, lane: V2Lane, stop: int) -> None:
        link = self._link
        secret = link.keys.connection_secret
        for direction, flow in link.flows.items():
            if secret is None:
                missing = link.keys.missing or "connection secret"
                link.unreadable(flow, f"sealed; missing: {missing}", Verdict.NO_KEY)
                continue
            if direction not in self._lanes:
                self._lane(flow, rev1=lane.rev1)
            mine = self._lanes[direction]
            start = stop if mine is lane else flow.offset if self._ordered else None
            caches = link.caches
            mine.become_secure(SealedFrames(secret, direction, rev1=mine.rev1, caches=caches, start=start))
            if link.readings[direction] is not mine:
                mine.lost(0)


class _HandshakeLane(V2Lane):
    """A lane that begins with the frames of the handshake."""

    def __init__(self, link: DecodedLink, flow: Flow, reader: object, talk: V2Talk, *, rev1: bool) -> None:
        super().__init__(link, flow, reader, talk, rev1=rev1)  # type: ignore[arg-type]
        self._talk = talk

    @override
    def mended(self, tag: int, control: ControlFrame | None, wire: memoryview, stop: int, judged: Judged) -> None:
        if self.phase is self._talk and not (judged.is_bad and tag in _DATA):
            self._talk.passed(self, tag, control, wire, stop)

    @override
    def disorder(self) -> None:
        self._talk.disorder()

    @override
    def search(self, search: CrcSearch | SealedSearch, error: PeerError | None) -> None:
        """Search for the next frame; the skipped bytes may be those for which the other direction waits."""
        if self.phase is self._talk:
            self._talk.incomplete()
            self._talk.disorder()
        super().search(search, error)


class _BetweenBanners:
    """Waits for the other side's banner, which determines the layout of frames (§4.2)."""

    def __init__(self, talk: V2Talk, flow: Flow) -> None:
        self._talk = talk
        self._flow = flow
        self._alone = False

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""
        if not (self._talk.both_banners() or self._alone):
            return False
        self._talk.enter(self._flow)
        return True

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return bool(self._flow.view)

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""
        self._alone = True
        self._talk.disorder()

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return 0

    def close(self, why: str) -> None:
        """Record the bytes left over, because the next ones are missing or the flow has ended."""
        self._talk.close(self._flow, why)

    def lost(self, size_bytes: int) -> None:
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
        self._talk.enter(self._flow).lost(size_bytes)
