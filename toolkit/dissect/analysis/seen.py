"""The frames of a capture as its history needs them, in a hundred bytes each besides their contents."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame, MessageInfo

Layout = tuple[tuple[str, object], ...]
"""Fields that only frames of captures have."""
Content = MessageInfo | dict[str, object]
_NUMBERS = 6
_MOST_SHARED = 1 << 12


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


class SeenFrames:
    """Frames in the order of the capture."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._kinds: list[tuple[Direction, str, Layout]] = []
        self._contents: list[Content] = []
        self._shared_kinds: dict[tuple[Direction, str, Layout], tuple[Direction, str, Layout]] = {}
        self._shared_fields: dict[str, dict[str, object]] = {}
        """Fields of control frames by their text: those of most handshakes are alike."""

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[SeenFrame]:
        numbers = iter(self._numbers)
        for six, kind, content in zip(
            zip(*[numbers] * _NUMBERS, strict=True), self._kinds, self._contents, strict=True
        ):
            yield SeenFrame._make((*six, *kind, content))

    def add(self, frame: DecodedFrame, number: int, layout: Layout) -> None:
        """Add a frame, which is the ``number``-th of its direction."""
        place = frame.time_ns, frame.stream.index, number, frame.offset, frame.length, frame.frame
        self._numbers.extend(place)
        kind = frame.direction, frame.tag, layout
        self._kinds.append(self._shared_kinds.setdefault(kind, kind))
        self._contents.append(frame.message or self._shared(frame.fields))

    def streams(self) -> list[tuple[int, Direction]]:
        """Return the stream and the direction of each frame."""
        directions = (kind[0] for kind in self._kinds)
        return list(zip(self._numbers[1::_NUMBERS], directions, strict=True))

    def _shared(self, fields: dict[str, object]) -> dict[str, object]:
        """Return the same object for equal fields, as far as they are remembered."""
        if len(self._shared_fields) >= _MOST_SHARED:
            self._shared_fields.clear()
        return self._shared_fields.setdefault(repr(fields), fields)
