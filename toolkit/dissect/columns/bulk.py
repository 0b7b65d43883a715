"""Reads open links in bulk: the messenger's readers split and verify frames, NumPy makes the rows.

Per frame only its position and the bytes of its header are kept; each field is read from all headers at once.
"""

from typing import Any, NamedTuple

import numpy as np

from messenger.errors import PeerError
from messenger.messages.types import message_name
from messenger.v1.framing import HEADER, Header
from messenger.v1.wire import Piece
from messenger.v2.framing import CrcReader, Frame
from messenger.v2.preamble import COMPRESSED, PREAMBLE
from messenger.v2.wire import MESSAGE_HEADER, MESSAGE_HEADER_FIELDS, Tag
from toolkit.capture.formats.packets import Integers, records_at
from toolkit.dissect.columns.crc_messages import MessagePlans, pass_messages
from toolkit.dissect.columns.gather import Gatherer
from toolkit.dissect.columns.schema import NULL, Rows, dtype_of
from toolkit.dissect.frames import Verdict
from toolkit.dissect.keys import KEY_MESSAGES
from toolkit.dissect.links import FlowLane, RecordPhase, V1Lane, V2Lane
from toolkit.dissect.links.lane import copied
from toolkit.dissect.links.names import source_name
from toolkit.dissect.links.v2lane import Judged

_V1_HEADERS = dtype_of(HEADER, Header._fields)
_V1_HEAD_SIZE = 1 + HEADER.size
_V2_HEADERS = dtype_of(MESSAGE_HEADER, MESSAGE_HEADER_FIELDS)
_PREAMBLE_FIELDS = ("tag", "segments", "head", "align0", "front", "align1", "middle", "align2", "data", "align3")
_V2_HEADS = np.dtype(
    [*dtype_of(PREAMBLE, (*_PREAMBLE_FIELDS, "flags", "reserved")).descr, ("crc", "<u4"), ("header", _V2_HEADERS)]
)
_SAME = ("type", "seq", "tid", "version", "compat_version", "priority")
_PARTS = ("front", "middle", "data")
_HEADER_SIZE = MESSAGE_HEADER.size
_TYPE = slice(16, 18)
_KEY_TYPES = frozenset(kind.to_bytes(2, "little") for kind in KEY_MESSAGES)
_MESSAGE = int(Tag.MESSAGE)
_SMALL = {int(tag): tag.name for tag in (Tag.ACK, Tag.KEEPALIVE2, Tag.KEEPALIVE2_ACK)}
_SMALL_SIZE = 8
"""Size of their payloads in bytes: a seq or a time."""
_Small = tuple[int, int, str]
"""Begin, end and tag of such a frame."""
_TYPES = 1 << 16
_LEAST_BYTES = 2048
"""Arrays do not pay off for fewer bytes."""
_LEAST_SMALL_BYTES = 512
"""The same for ACK and keepalive frames."""
_UNNAMED = NULL - 1


class _ReadMessages(NamedTuple):
    """Messages that were read one by one: an item of each list, and three of ``sizes``, per message."""

    starts: list[int]
    stops: list[int]
    headers: list[bytes]
    sizes: list[int]
    """Lengths in bytes of front, middle and data."""


class BulkPhase:
    """Reads the frames of open links in bulk, if each direction comes as a run of its own.

    Frames other than well-formed messages go through the link's decoder one by one.
    """

    def __init__(self, gatherer: Gatherer) -> None:
        self._gatherer = gatherer
        self._one_by_one = RecordPhase()
        self._plans = MessagePlans()
        self._names = np.full(_TYPES, _UNNAMED, np.int32)
        """By message type, the number of its name in the vocabulary; _UNNAMED until the type is met."""

    def frames(self, lane: FlowLane, view: memoryview, at: int) -> tuple[int, PeerError | None]:
        """Read whole frames from ``view[at:]`` by ``lane.reader``, up to one that is incomplete or malformed."""
        size = len(view) - at
        if not lane.link.stream.batched or (
            size < _LEAST_BYTES and not (size >= _LEAST_SMALL_BYTES and view[at] in _SMALL)
        ):
            return self._one_by_one.frames(lane, view, at)
        if isinstance(lane, V2Lane):
            return self._v2(lane, view, at)
        if isinstance(lane, V1Lane) and lane.head_bytes == _V1_HEAD_SIZE:
            return self._v1(lane, view, at)
        return self._one_by_one.frames(lane, view, at)

    # ---- v1

    def _v1(self, lane: V1Lane, view: memoryview, at: int) -> tuple[int, PeerError | None]:
        starts: list[int] = []
        stops: list[int] = []
        small: list[_Small] = []
        end = len(view)
        reader = lane.reader
        error = None
        with self._gatherer.run():
            try:
                while (at := reader.pass_messages(view, at, end, starts, stops, KEY_MESSAGES)) < end:
                    found = reader.next_frame(view, at, end, owned=False)
                    if found is None:
                        break
                    if len(found) == 2:
                        small.append((at, found[0], found[1].PIECE))
                    else:
                        lane.put(view, at, found)
                    at = found[0]
            except PeerError as wrong:
                error = copied(wrong)
            if starts:
                self._v1_messages(lane, view, np.array(starts), np.array(stops))
            if small:
                self._small(lane, small, Verdict.NONE, Verdict.NONE)
        return at, error

    def _v1_messages(self, lane: V1Lane, view: memoryview, starts: Integers, stops: Integers) -> None:
        fields = records_at(view, starts + 1, _V1_HEADERS)
        flags = np.frombuffer(view, np.uint8)[stops - 1]
        first = lane.judged(int(flags[0]))
        rows = self._messages(lane, starts, stops, fields, Piece.MSG, first)
        for name in _PARTS:
            rows[name] = fields[f"{name}_len"]
        rows["message_src"] = self._sources_of(fields["src_type"], fields["src_num"])
        others = flags != flags[0]
        if others.any():
            for value in np.unique(flags[others]).tolist():
                judged = lane.judged(value)
                which = flags == value
                rows["crc"][which] = self._number("crc", judged.crc)
                rows["auth"][which] = self._number("auth", judged.auth)
                rows["error"][which] = self._number("error", judged.error)

    # ---- v2

    def _v2(self, lane: V2Lane, view: memoryview, at: int) -> tuple[int, PeerError | None]:
        begins: dict[int, int] = {}  # by the number of messages before, where consecutive ones begin
        stops: list[int] = []
        others = _ReadMessages([], [], [], [])
        small: list[_Small] = []
        end = len(view)
        # Secure frames would be decrypted in place, but the bytes belong to the assembler.
        owned = lane.mode == "crc"
        reader = lane.reader
        can_pass = isinstance(reader, CrcReader)
        error = None
        with self._gatherer.run():
            try:
                while at < end:
                    if can_pass:
                        begins[len(stops)] = at
                        at = pass_messages(self._plans, view, at, reader.max_frame_bytes, _KEY_TYPES, stops)
                        if at == end:
                            break
                    found = reader.next_frame(view, at, end, owned=owned)
                    if found is None:
                        break
                    stop, tag, head, front, middle, data = (
                        found if found[1] < COMPRESSED else _restored(lane, found)
                    )
                    if tag == _MESSAGE and len(head) == _HEADER_SIZE and head[_TYPE] not in _KEY_TYPES:
                        others.starts.append(at)
                        others.stops.append(stop)
                        others.headers.append(bytes(head))
                        others.sizes.extend((len(front), len(middle), len(data)))
                    elif tag in _SMALL and len(head) == _SMALL_SIZE and not (front or middle or data):
                        small.append((at, stop, _SMALL[tag]))
                    else:
                        lane.put(view, at, found)
                    at = stop
            except PeerError as wrong:
                error = copied(wrong)
            if stops:
                begins.pop(len(stops), None)
                ends = np.array(stops)
                starts = np.roll(ends, 1)
                starts[list(begins)] = list(begins.values())
                self._passed(lane, view, starts, ends)
            if others.starts:
                headers = np.frombuffer(b"".join(others.headers), _V2_HEADERS)
                sizes = np.array(others.sizes).reshape(-1, 3).T
                self._v2_messages(lane, np.array(others.starts), np.array(others.stops), headers, list(sizes))
            if small:
                self._small(lane, small, Verdict.OK, lane.good)
        return at, error

    def _passed(self, lane: V2Lane, view: memoryview, starts: Integers, stops: Integers) -> None:
        """Add rows for messages of crc mode whose preamble and header are still in the view."""
        heads = records_at(view, starts, _V2_HEADS)
        used = heads["segments"]
        sizes = [np.where(used > number, heads[name], 0) for number, name in enumerate(_PARTS, 1)]
        self._v2_messages(lane, starts, stops, heads["header"], sizes)

    def _v2_messages(
        self, lane: V2Lane, starts: Integers, stops: Integers, fields: Rows, sizes: list[Integers]
    ) -> None:
        """Add rows for messages; ``sizes`` has the lengths of their fronts, of their middles and of their data."""
        rows = self._messages(lane, starts, stops, fields, Tag.MESSAGE.name, Judged(auth=lane.good))
        for name, part in zip(_PARTS, sizes, strict=True):
            rows[name] = part
        rows["ack_seq"] = fields["ack_seq"]
        rows["message_src"] = self._number("message_src", lane.source)

    # ---- both

    def _rows(self, lane: FlowLane, starts: Integers, stops: Integers, **same: str | int | None) -> Rows:
        """Return rows for frames; ``same`` holds the columns that are the same for all, texts as words."""
        flow, stream = lane.flow, lane.link.stream
        same |= {
            "stream": stream.index,
            "src": stream.source(flow.direction),
            "dst": stream.source(flow.direction.other),
            "protocol": lane.protocol,
            "mode": lane.mode,
        }
        rows = self._gatherer.rows(len(starts), same)
        rows["time"], rows["packet"] = flow.moments(flow.offset + stops)
        rows["offset"] = flow.offset + starts
        rows["length"] = stops - starts
        return rows

    def _messages(
        self, lane: FlowLane, starts: Integers, stops: Integers, fields: Rows, tag: str, judged: Judged
    ) -> Rows:
        """Return rows for messages, with the fields that the headers of both protocols have."""
        verdict: dict[str, str | None] = {"crc": judged.crc, "auth": judged.auth, "error": judged.error}
        rows = self._rows(lane, starts, stops, message=True, tag=tag, **verdict)
        rows["name"] = self._names_of(fields["type"])
        for name in _SAME:
            rows[name] = fields[name]
        return rows

    def _small(self, lane: FlowLane, small: list[_Small], crc: Verdict, auth: Verdict) -> None:
        """Add rows for well-formed ACK and keepalive frames."""
        starts, stops, tags = zip(*small, strict=True)
        rows = self._rows(lane, np.array(starts), np.array(stops), crc=crc, auth=auth, error=None)
        rows["tag"] = [self._number("tag", tag) for tag in tags]

    def _number(self, column: str, text: str | None) -> int:
        return self._gatherer.vocabularies[column].number(text)

    def _sources_of(self, kinds: Any, nums: Any) -> Any:  # noqa: ANN401 - arrays
        if (kinds == kinds[0]).all() and (nums == nums[0]).all():
            return self._number("message_src", source_name(kinds[0].item(), nums[0].item()))
        sources = zip(kinds.tolist(), nums.tolist(), strict=True)
        return [self._number("message_src", source_name(*source)) for source in sources]

    def _names_of(self, types: Any) -> Any:  # noqa: ANN401 - arrays
        names = self._names[types]
        new = types[names == _UNNAMED]
        if len(new):
            for kind in np.unique(new).tolist():
                self._names[kind] = self._number("name", message_name(kind))
            names = self._names[types]
        return names


def _restored(lane: V2Lane, found: Frame) -> Frame:
    """Return a compressed frame decompressed; unchanged, and then no message, if it cannot be decompressed."""
    try:
        stop, tag, header, *parts = lane.restored(found)
    except PeerError:
        return found
    front, middle, data = parts
    return stop, tag, bytes(header), front, middle, data
