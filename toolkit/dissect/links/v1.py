"""A v1 link from its banners on: the handshake, and the messages after it (docs/protocol.md §3.2, §3.7)."""

from functools import partial
from struct import Struct

from messenger.compat import override
from messenger.crc import crc32c
from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.errors import FaultReason, PeerError
from messenger.messages.message import Message
from messenger.messages.types import message_name
from messenger.v1.framing import (
    COMPLETE,
    FOOTER,
    FOOTER_OLD,
    HEADER,
    NOCRC,
    OLD_HEADER_SIZE,
    SIGNED,
    Header,
    HeaderFields,
    Signer,
    StreamFrame,
    StreamReader,
    decode_old_header,
    stream_form,
)
from messenger.v1.wire import Connect, ConnectReply, Frame, Piece, Tag, cut_small
from toolkit.dissect.fields import message_fields
from toolkit.dissect.follow_v1 import V1Opening
from toolkit.dissect.frames import IN_PART, DecodedFrame, MessageInfo, Verdict
from toolkit.dissect.keys import KEY_MESSAGES, LinkKeys
from toolkit.dissect.links.flow import Flow
from toolkit.dissect.links.lane import FlowLane, OpenPhase, wire_of
from toolkit.dissect.links.link import LIMIT_BYTES, DecodedLink
from toolkit.dissect.links.names import source_name
from toolkit.dissect.links.search import Proof, Resync
from toolkit.dissect.links.search_v1 import V1Search, has_msg_auth
from toolkit.dissect.links.v2lane import Judged, in_words

_MSG = int(Tag.MSG)
_MSG_NAME = Piece.MSG.value


class V1Lane(FlowLane):
    """One direction of an open v1 link.

    Args:
        link: the link.
        flow: the direction.
        phase: reads the frames.
        features: features in force.
        signer: verifies signatures; None if they are not verified.
    """

    def __init__(
        self, link: DecodedLink, flow: Flow, phase: OpenPhase, features: int, signer: Signer | None
    ) -> None:
        form = stream_form(features)
        self._msg_auth, self._old_header = form["msg_auth"], form["old_header"]
        self._signer = signer
        self._summed = True  # the sender computes the crcs of headers
        super().__init__(link, flow, "v1", "crc", self._new_reader(), phase)
        self.features = features

    def _new_reader(self) -> StreamReader:
        return StreamReader(
            LIMIT_BYTES,
            self._signer,
            msg_auth=self._msg_auth,
            check_header=self._summed,
            old_header=self._old_header,
        )

    @property
    def head_bytes(self) -> int:
        """Length of tag and header."""
        return 1 + (OLD_HEADER_SIZE if self._old_header else HEADER.size)

    @property
    def _footer(self) -> Struct:
        return FOOTER if self._msg_auth else FOOTER_OLD

    # ---- well-formed frames

    def judged(self, flags: int) -> Judged:
        """Return the verdict on a message that the reader returned, by the flags of its footer."""
        judged = Judged() if self._summed or not flags & NOCRC else Judged(crc=Verdict.NONE)
        if self._signer is not None:
            judged.auth = Verdict.OK
        elif flags & SIGNED:
            judged.auth = Verdict.NO_KEY
            judged.error = f"signed; missing: {self.link.keys.missing or 'session key'}"
        return judged

    def put(self, view: memoryview, at: int, found: StreamFrame) -> None:
        """Emit the record of a frame that the reader returned."""
        if len(found) == 2:
            stop, small = found
            record = self._made(view, at, stop, small.PIECE.value, Judged(crc=Verdict.NONE))
            record.read_fields = small.printable
            self.link.emit(record)
        else:
            stop, header, front, middle, data, flags = found
            self._message(view, at, stop, header, (front, middle, data), flags, self.judged(flags))

    def _message(
        self,
        view: memoryview,
        at: int,
        stop: int,
        header: HeaderFields,
        parts: tuple[Buffer, ...],
        flags: int,
        judged: Judged,
    ) -> None:
        seq, tid, kind, priority, version, _, _, _, off, _, _, compat, _, _ = header
        front, middle, data = parts
        message = Message(kind, front, middle, data, tid, priority, version, compat, seq, flags, off)
        record = made(self.link, self.flow, view, at, stop, _MSG_NAME, judged)
        record.message = _info(header, (len(front), len(middle), len(data)))
        record.segments = (view[at + 1 : at + self.head_bytes].tobytes(), front, middle, data)
        record.read_fields, record.features = partial(message_fields, message, self.features), self.features
        if kind in KEY_MESSAGES:
            if not judged.is_bad:
                self.link.key_message(self.flow.direction, kind, front)
            record.read_fields = partial(_key_message_fields, self.link.keys, message, self.features)
        self.link.emit(record)

    def _made(self, view: memoryview, at: int, stop: int, tag: str, judged: Judged) -> DecodedFrame:
        return made(self.link, self.flow, view, at, stop, tag, judged)

    @override
    def snapped(self) -> DecodedFrame | None:
        view = self.flow.view
        if len(view) < self.head_bytes or view[0] != _MSG:
            return None
        header = self._header(view, 0)
        total = self._stop(0, header)
        if header.crc != crc32c(view[1 : self.head_bytes - 4], 0) or total > LIMIT_BYTES:
            return None
        self.reader = self._new_reader()
        record = self._made(view, 0, total, _MSG_NAME, Judged(Verdict.NONE, Verdict.NONE, IN_PART))
        record.message = _info(header, (header.front_len, header.middle_len, header.data_len))
        return record

    # ---- malformed frames

    @override
    def mend(self, view: memoryview, at: int, error: PeerError) -> int | None:
        if view[at] != _MSG or error.reason is FaultReason.OVERSIZE:
            self._search(error)
            return None
        header = self._header(view, at)
        if error.reason is FaultReason.HEADER_CRC:
            if header.crc:
                self._search(error)
                return None
            # The sender has ms_crc_header off.
            self._summed = False
            self.reader = self._new_reader()
            return at
        return self._put_wrong(view, at, header)

    def _header(self, view: memoryview, at: int) -> Header:
        raw = view[at + 1 : at + self.head_bytes]
        return decode_old_header(raw) if self._old_header else Header._make(HEADER.unpack_from(raw))

    def _stop(self, at: int, header: Header) -> int:
        parts = header.front_len + header.middle_len + header.data_len
        return at + self.head_bytes + parts + self._footer.size

    def _put_wrong(self, view: memoryview, at: int, header: Header) -> int:
        """Emit the record of a complete but malformed message, after verifying each part."""
        stop = self._stop(at, header)
        body = at + self.head_bytes
        parts: list[bytes] = []
        for length in (header.front_len, header.middle_len, header.data_len):
            parts.append(view[body : body + length].tobytes())
            body += length
        *crcs, flags = self._footer.unpack_from(view, body)
        sig = crcs.pop() if self._msg_auth else 0
        summed = [self._summed, self._summed, not flags & NOCRC]
        complaints = []
        right = crc32c(view[at + 1 : at + self.head_bytes - 4], 0)
        if self._summed and header.crc != right:
            complaints.append(_complaint("the header", header.crc, right))
        for what, part, stored, counts in zip(("front", "middle", "data"), parts, crcs, summed, strict=True):
            right = crc32c(part, 0)
            if counts and stored != right:
                complaints.append(_complaint(what, stored, right))
        judged = self.judged(flags)
        if complaints:
            judged.crc = Verdict.BAD
        if not flags & COMPLETE:
            complaints.append("aborted by its sender")
        if self._signer is not None:
            lengths = header.front_len, header.middle_len, header.data_len
            covered = [value for pair in zip(crcs, lengths, strict=True) for value in pair]
            judged.auth = Verdict.NONE if not (flags & SIGNED or sig) else Verdict.OK
            if judged.auth is Verdict.OK and self._signer(header.crc, *covered, header.seq) != sig:  # type: ignore[call-arg]
                judged.auth = Verdict.BAD
                complaints.append("the signature does not fit")
        judged.error = ", ".join(complaints) or judged.error
        self._message(view, at, stop, header, tuple(parts), flags, judged)
        return stop

    # ---- search for the next frame

    @override
    def lost(self, size_bytes: int) -> None:
        self._search(None)

    def _search(self, error: PeerError | None) -> None:
        search = V1Search(old_header=self._old_header)
        self.flow.needed = 0
        if error is None:
            reading = Resync(self.link, self.flow, search, self._found)
        else:
            wrong, whole = in_words(error), self._is_whole
            reading = Resync(self.link, self.flow, search, self._found, whole=whole, wrong=wrong, crc=Verdict.BAD)
        self.link.readings[self.flow.direction] = reading

    def _found(self, _proof: Proof, view: memoryview, at: int) -> bool:
        """Continue at the message found; the bytes before it may be a malformed message and small frames."""
        self.link.readings[self.flow.direction] = self
        return self._is_whole(view[:at])

    def _is_whole(self, view: memoryview) -> bool:
        """Record a message with a wrong header and the small frames after it, if the view consists of these."""
        if len(view) < self.head_bytes or view[0] != _MSG:
            return False
        header = self._header(view, 0)
        at = self._stop(0, header)
        small: list[tuple[int, int, Frame]] = []
        while at < len(view):
            try:
                found = cut_small(view, at, len(view))
            except PeerError:
                return False
            if found is None:
                return False
            small.append((at, *found))
            at = found[0]
        if at != len(view):
            return False
        self._put_wrong(view, 0, header)
        for start, stop, frame in small:
            self.put(view, start, (stop, frame))
        return True


def _info(header: HeaderFields, sizes: tuple[int, int, int]) -> MessageInfo:
    seq, tid, kind, priority, version, _, _, _, _, src_type, src_num, compat, _, _ = header
    src, (front, middle, data) = source_name(src_type, src_num), sizes
    return MessageInfo(kind, message_name(kind), seq, tid, src, version, compat, priority, front, middle, data, 0)


def made(
    link: DecodedLink, flow: Flow, view: memoryview, at: int, stop: int, tag: str, judged: Judged
) -> DecodedFrame:
    """Return the record of a v1 frame."""
    time_ns, packet = flow.moment(flow.offset + stop)
    return DecodedFrame(
        frame=-1,
        time_ns=time_ns,
        packet=packet,
        stream=link.stream,
        direction=flow.direction,
        protocol="v1",
        mode="crc",
        tag=tag,
        offset=flow.offset + at,
        length=stop - at,
        crc=judged.crc,
        auth=judged.auth,
        error=judged.error,
        wire=wire_of(flow, view, at, stop),
    )


def _complaint(what: str, stored: int, right: int) -> str:
    return f"crc of {what}: 0x{stored:08x} should be 0x{right:08x}"


# ---- the handshake


class V1Talk:
    """The handshake of one link."""

    def __init__(self, link: DecodedLink) -> None:
        self._link = link
        self._opening = V1Opening(LIMIT_BYTES)
        self._to_monitor = True

    def enter(self, flow: Flow) -> None:
        """Process the banner of v1 at the beginning of a flow."""
        self._link.prove()
        self._link.readings[flow.direction] = _OpeningReading(self._link, flow, self, self._opening)

    def passed(self, flow: Flow, piece: Frame) -> None:
        """Process a part of the handshake."""
        self._link.keys.v1_piece(flow.direction, piece)
        if isinstance(piece, Connect) and piece.authorizer:
            self._to_monitor = False
        if self._opening.is_open(flow.direction):
            self.open(flow)

    def open(self, flow: Flow) -> None:
        """Read a flow as messages and small frames from now on."""
        features = self._opening.features or 0
        lane = V1Lane(self._link, flow, self._link.phase, features, self._link.keys.signer)
        self._link.readings[flow.direction] = lane
        # Messages of monitors contain keys for links that are opened directly afterwards.
        if not self._to_monitor:
            self._link.stream.batched = True


def lane_behind(link: DecodedLink, flow: Flow, view: memoryview, at: int) -> None:
    """Read a flow from a message on, because its beginning was not captured."""
    msg_auth = has_msg_auth(view, at)
    features = ALL_FEATURES if msg_auth else ALL_FEATURES & ~int(Feature.MSG_AUTH)
    link.prove()
    link.readings[flow.direction] = V1Lane(link, flow, link.phase, features, None)


class _OpeningReading:
    """Reads one direction of a handshake."""

    def __init__(self, link: DecodedLink, flow: Flow, talk: V1Talk, opening: V1Opening) -> None:
        self._link = link
        self._flow = flow
        self._talk = talk
        self._opening = opening
        self._alone = False

    def step(self) -> bool:
        """Read all complete pieces; returns True if there was one, so that the other flow may go on."""
        flow = self._flow
        if self._opening.is_open(self._flow.direction):
            self._talk.open(flow)
            return True
        try:
            found = self._opening.piece(flow.view, flow.direction) if flow.view else None
        except PeerError as error:
            self._search(in_words(error))
            return True
        if found is None:
            if self._alone and self.waits():
                self._search(None)
                return True
            return False
        size, piece = found
        record = made(self._link, flow, flow.view, 0, size, piece.PIECE.value, Judged(crc=Verdict.NONE))
        record.read_fields = piece.printable
        if isinstance(piece, Connect | ConnectReply):
            record.read_fields = partial(_connect_fields, self._link.keys, piece)
        self._link.emit(record)
        flow.consume(size)
        self._talk.passed(flow, piece)
        return True

    def waits(self) -> bool:
        """True if bytes are unread because their layout depends on the other flow."""
        return bool(self._flow.view) and self._opening.waits(self._flow.direction)

    def disorder(self) -> None:
        """Read on without the bytes of the other flow, which will not come."""
        self._alone = True

    def unrecorded_bytes(self) -> int:
        """Number of bytes consumed last without a record; the successor has to record them."""
        return 0

    def close(self, why: str) -> None:
        """Record the bytes left over, because the next ones are missing or the flow has ended."""
        flow = self._flow
        left = len(flow.view)
        self._link.unknown(flow, flow.offset, left, f"{why} inside this frame")
        flow.consume(left)

    def lost(self, size_bytes: int) -> None:  # noqa: ARG002 - however many there are
        """Skip ``size_bytes`` missing bytes; called after :meth:`close`."""
        self._search(None)

    def _search(self, wrong: str | None) -> None:
        link, flow = self._link, self._flow

        def found(proof: Proof, view: memoryview, _at: int) -> bool:
            lane_behind(link, flow, view, proof.at)
            return False

        self._flow.needed = 0
        crc = Verdict.NONE if wrong is None else Verdict.BAD
        link.readings[flow.direction] = Resync(
            link, flow, V1Search(footer_known=False), found, wrong=wrong, crc=crc
        )


def _connect_fields(keys: LinkKeys, piece: Connect | ConnectReply) -> dict[str, object]:
    return keys.explained(piece.printable(), piece.authorizer)


def _key_message_fields(keys: LinkKeys, message: Message, features: int) -> dict[str, object]:
    return keys.explained(message_fields(message, features), message.front)
