"""Follows a v1 link from outside: the previous parts decide what follows (docs/protocol.md §3.2).

Neither crcs nor signatures are verified; the receiver does that.
"""

from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES
from messenger.v1.framing import StreamReader, printable_message, stream_form
from messenger.v1.wire import (
    Banner,
    ClientIdentify,
    Connect,
    ConnectReply,
    Frame,
    Piece,
    Seq,
    ServerIdentify,
    Tag,
)
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys import KEY_MESSAGES, LinkKeys

_FINAL = frozenset({Tag.READY, Tag.SEQ})

Cut = tuple[int, str, dict[str, object]]
"""Size, name and fields of a part."""


class V1Opening:
    """The handshake of a v1 link, part by part in the order of cause and effect.

    Args:
        max_bytes: longer authorizers are treated as invalid.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._sides = {direction: _Side() for direction in Direction}
        self._asked = False
        """True if a CONNECT waits for its reply."""
        self._connect_features = 0
        self.features: int | None = None
        """The features in force, from the last reply on; None before."""

    def is_open(self, direction: Direction) -> bool:
        """True if only messages and small frames follow in a direction."""
        return self._sides[direction].open

    def piece(self, view: memoryview, direction: Direction) -> tuple[int, Frame] | None:
        """Read the next part of a direction from the start of ``view``; returns its size and the part.

        Returns:
            None while it is incomplete, or the other direction comes first.

        Raises:
            PeerError: the bytes are malformed.
        """
        side = self._sides[direction]
        found = self._cut(view, side, direction)
        if found is not None:
            self._follow(found[1], side)
        return found

    def waits(self, direction: Direction) -> bool:
        """True if the next part of a direction cannot be read before one of the other."""
        side = self._sides[direction]
        if not side.identified or side.seq_due or side.open:
            return False
        return self._asked == (direction is Direction.TO_SERVER)

    def stream_reader(self) -> StreamReader:
        """Return a reader for the stream after the handshake; it verifies nothing."""
        form = stream_form(self.features or 0)
        return StreamReader(self._max_bytes, check_header=False, check_data=False, **form)

    def _cut(self, view: memoryview, side: "_Side", direction: Direction) -> tuple[int, Frame] | None:
        to_server = direction is Direction.TO_SERVER
        if not side.banner_seen:
            return Banner.cut(view)
        if not side.identified:
            return ClientIdentify.cut(view) if to_server else ServerIdentify.cut(view)
        if self.waits(direction):
            return None
        if side.seq_due:
            return Seq.cut(view)
        return Connect.cut(view, self._max_bytes) if to_server else ConnectReply.cut(view, self._max_bytes)

    def _follow(self, frame: Frame, side: "_Side") -> None:
        if isinstance(frame, Banner):
            side.banner_seen = True
        elif isinstance(frame, ServerIdentify | ClientIdentify):
            side.identified = True
        elif isinstance(frame, Connect):
            self._connect_features = frame.features
            self._asked = True
        elif isinstance(frame, ConnectReply):
            self._asked = False
            if frame.tag in _FINAL:
                self.features = self._connect_features & frame.features
                for each in self._sides.values():
                    each.seq_due = frame.tag is Tag.SEQ
                    each.open = not each.seq_due
        else:
            side.seq_due = False
            side.open = True


class _Side:
    """One direction: how far its sender's handshake has come."""

    def __init__(self) -> None:
        self.banner_seen = False
        self.identified = False
        self.seq_due = False
        self.open = False


class V1Conversation:
    """Splits a v1 link into its parts, from its first byte on.

    Args:
        max_bytes: longer messages and authorizers are treated as invalid.
        keys: receives the frames about keys.
    """

    def __init__(self, max_bytes: int, keys: LinkKeys) -> None:
        self._keys = keys
        self._opening = V1Opening(max_bytes)
        self._reader: StreamReader | None = None
        self.parts: tuple[Buffer, ...] = ()
        """Front, middle and data of the last part if it was a message; else empty."""

    @property
    def features(self) -> int:
        """The features in force, once both sides have agreed."""
        return int(ALL_FEATURES) if self._opening.features is None else self._opening.features

    def cut(self, view: memoryview, direction: Direction) -> Cut | None:
        """Read the next part of a direction from the start of ``view``; None while it is incomplete.

        Raises:
            PeerError: the bytes are malformed.
        """
        self.parts = ()
        if not view:
            return None
        if self._opening.is_open(direction):
            return self._cut_frame(view, direction)
        found = self._opening.piece(view, direction)
        if found is None:
            return None
        size, frame = found
        self._keys.v1_piece(direction, frame)
        return size, frame.PIECE.value, frame.printable()

    def _cut_frame(self, view: memoryview, direction: Direction) -> Cut | None:
        if self._reader is None:
            self._reader = self._opening.stream_reader()
        found = self._reader.next_frame(view, 0, len(view), owned=False)
        if found is None:
            return None
        if len(found) == 2:
            size, small = found
            return size, small.PIECE.value, small.printable()
        size, header, front, middle, data, _ = found
        self.parts = front, middle, data
        if header[2] in KEY_MESSAGES:
            self._keys.message(direction, header[2], front)
        return size, Piece.MSG.value, printable_message(header)
