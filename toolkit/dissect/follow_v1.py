"""Following a v1 link from outside (protocol.md §3.2): what comes next follows from what both sides have said.

Nothing is checked on the way, neither checksums nor signatures: that is the receiver's business.
"""

from messenger.denc.features import Feature, has_feature
from messenger.v1.framing import StreamReader, printable_message
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

_FINAL = frozenset({Tag.READY, Tag.SEQ})

Cut = tuple[int, str, dict[str, object]]
"""Size, name and fields of a piece."""


class _Side:
    """One direction: how far its sender has come."""

    def __init__(self) -> None:
        self.banner_seen = False
        self.identified = False
        self.seq_due = False
        self.open = False


class V1Conversation:
    """Cuts the pieces of a v1 link, whose first bytes have not been taken yet.

    Args:
        max_bytes: longer messages and authorizers are taken for noise.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._client = _Side()
        self._server = _Side()
        self._features = 0
        self._readers: dict[bool, StreamReader] = {}
        self._asked = False
        """A CONNECT waits for its reply."""

    def cut(self, view: memoryview, *, to_server: bool) -> Cut | None:
        """The next piece of a direction, which begins ``view``; None while it is incomplete.

        Raises:
            PeerError: these bytes are none.
        """
        side = self._client if to_server else self._server
        if not view:
            return None
        if side.open:
            return self._cut_frame(view, to_server=to_server)
        found = self._cut_piece(view, side, to_server=to_server)
        if found is None:
            return None
        size, frame = found
        self._follow(frame, side)
        return size, frame.PIECE.value, frame.printable()

    def _cut_piece(self, view: memoryview, side: _Side, *, to_server: bool) -> tuple[int, Frame] | None:
        if not side.banner_seen:
            return Banner.cut(view)
        if not side.identified:
            return ClientIdentify.cut(view) if to_server else ServerIdentify.cut(view)
        if side.seq_due:
            return Seq.cut(view)
        if not to_server:
            return ConnectReply.cut(view, self._max_bytes)
        return None if self._asked else Connect.cut(view, self._max_bytes)

    def _follow(self, frame: Frame, side: _Side) -> None:
        if isinstance(frame, Banner):
            side.banner_seen = True
        elif isinstance(frame, ServerIdentify | ClientIdentify):
            side.identified = True
        elif isinstance(frame, Connect):
            self._features = frame.features
            self._asked = True
        elif isinstance(frame, ConnectReply):
            self._asked = False
            if frame.tag in _FINAL:
                self._agree(frame)
        else:
            side.seq_due = False
            side.open = True

    def _agree(self, reply: ConnectReply) -> None:
        features = self._features & reply.features
        for to_server in True, False:
            self._readers[to_server] = StreamReader(
                self._max_bytes,
                msg_auth=has_feature(features, Feature.MSG_AUTH),
                check_header=False,
                check_data=False,
                old_header=not has_feature(features, Feature.NOSRCADDR),
            )
        for side in self._client, self._server:
            side.seq_due = reply.tag is Tag.SEQ
            side.open = not side.seq_due

    def _cut_frame(self, view: memoryview, *, to_server: bool) -> Cut | None:
        found = self._readers[to_server].next_frame(view, 0, len(view), owned=False)
        if found is None:
            return None
        if len(found) == 2:
            size, small = found
            return size, small.PIECE.value, small.printable()
        return found[0], Piece.MSG.value, printable_message(found[1])
