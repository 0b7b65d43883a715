"""The frames of a capture as its history needs them, in a temporary file if there are many."""

import pickle
from array import array
from collections.abc import Collection, Iterator
from typing import NamedTuple

from toolkit.dissect.analysis.spool import Spool
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, MessageInfo

Layout = tuple[tuple[str, object], ...]
"""Fields that only frames of captures have."""
Content = MessageInfo | dict[str, object]
Kind = tuple[Direction, str, Layout]
_Frames = tuple["array[int]", list[Kind], list[Content]]
_NUMBERS = 6
_MOST_SHARED = 1 << 12
_BLOCK_FRAMES = 1 << 12


class FrameRecord:
    """A frame record of a history, of which the attributes are the fields.

    Take them by ``vars``: dicts of instances share their keys, and take half of the memory of other dicts.
    """

    def __init__(
        self, link: str, session: int | None, direction: str, seen: "SeenFrame", fields: dict[str, object]
    ) -> None:
        self.link = link
        self.session = session
        self.direction = direction
        self.tag = seen.tag
        self.index = seen.number
        self.offset = seen.offset
        self.length = seen.length
        self.fields = fields
        self.frame = seen.frame
        for name, value in seen.layout:
            setattr(self, name, value)


class MessageFields:
    """The header of a message as the fields of a record: see :class:`FrameRecord`."""

    def __init__(self, info: MessageInfo) -> None:
        for name, value in info.as_fields().items():
            setattr(self, name, value)


class SeenFrame(NamedTuple):
    """One frame."""

    time_ns: int
    stream: int
    number: int
    """Its number in its direction of the stream."""
    offset: int
    length: int
    frame: int
    """Its number in the capture."""
    direction: Direction
    tag: str
    layout: Layout
    content: Content
    """The header of a message, or the fields of another frame."""


class _Block(NamedTuple):
    """Consecutive frames in the file."""

    first: int
    """Place of its first frame."""
    numbers: int
    """Position in the file of its numbers, which are before its contents."""
    contents: int
    end: int
    streams: range
    """A range with the streams of all its frames."""


class SeenFrames:
    """Frames in the order of the capture.

    The last few thousand are in memory, the others in a temporary file without a name, which is in memory as long
    as it is short.
    """

    def __init__(self) -> None:
        self._numbers = array("q")
        self._kinds: list[Kind] = []
        self._contents: list[Content] = []
        self._shared_kinds: dict[Kind, Kind] = {}
        self._shared_fields: dict[str, dict[str, object]] = {}
        """Fields of control frames by their text: those of most handshakes are alike."""
        self._blocks: list[_Block] = []
        self._spool = Spool()

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK_FRAMES + len(self._kinds)

    def add(self, frame: DecodedFrame, number: int, layout: Layout) -> None:
        """Add a frame, which is the ``number``-th of its direction.

        Raises:
            LocalError: the temporary file cannot be written.
        """
        place = frame.time_ns, frame.stream.index, number, frame.offset, frame.length, frame.frame
        self._numbers.extend(place)
        kind = frame.direction, frame.tag, layout
        self._kinds.append(self._shared_kinds.setdefault(kind, kind))
        self._contents.append(frame.message or self._shared(frame.fields))
        if len(self._kinds) == _BLOCK_FRAMES:
            self._put_away()

    def of(self, streams: Collection[int] | None = None) -> Iterator[tuple[int, SeenFrame]]:
        """Yield the frames of these streams with their places, from 0; None takes all streams.

        Raises:
            LocalError: the temporary file cannot be read.
        """
        span = None if streams is None else range(min(streams, default=0), max(streams, default=-1) + 1)
        for block in self._blocks:
            if span is None or (block.streams.start < span.stop and span.start < block.streams.stop):
                yield from _chosen(block.first, self._read(block, streams), streams)
        rest = self._numbers, self._kinds, self._contents
        yield from _chosen(len(self._blocks) * _BLOCK_FRAMES, rest, streams)

    def _put_away(self) -> None:
        """Write the frames in memory to the file."""
        streams = self._numbers[1::_NUMBERS]
        contents = pickle.dumps((self._kinds, self._contents), pickle.HIGHEST_PROTOCOL)
        first, middle, end = self._spool.append(self._numbers.tobytes(), contents)
        place = len(self._blocks) * _BLOCK_FRAMES
        self._blocks.append(_Block(place, first, middle, end, range(min(streams), max(streams) + 1)))
        self._numbers, self._kinds, self._contents = array("q"), [], []

    def _read(self, block: _Block, streams: Collection[int] | None) -> _Frames:
        """Return the frames of a block; none if it has no frame of these streams."""
        numbers = array("q")
        numbers.frombytes(self._spool.read(block.numbers, block.contents - block.numbers))
        if streams is not None and not any(map(streams.__contains__, numbers[1::_NUMBERS])):
            return array("q"), [], []
        contents = self._spool.read(block.contents, block.end - block.contents)
        return numbers, *pickle.loads(contents)  # noqa: S301 - own file

    def _shared(self, fields: dict[str, object]) -> dict[str, object]:
        """Return the same object for equal fields, as far as they are remembered."""
        if len(self._shared_fields) >= _MOST_SHARED:
            self._shared_fields.clear()
        return self._shared_fields.setdefault(repr(fields), fields)


def _chosen(first: int, frames: _Frames, streams: Collection[int] | None) -> Iterator[tuple[int, SeenFrame]]:
    numbers = iter(frames[0])
    rows = zip(zip(*[numbers] * _NUMBERS, strict=True), *frames[1:], strict=True)
    for place, (six, kind, content) in enumerate(rows, first):
        if streams is None or six[1] in streams:
            yield place, SeenFrame._make((*six, *kind, content))
