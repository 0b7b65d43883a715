"""AUTH_SIGNATURE on links between real endpoints (docs/protocol.md §4.7)."""

import pytest

from messenger.cephx.exchange import ConMode
from messenger.denc.entity import EntityType
from messenger.v2.wire import AuthSignature, ControlFrame
from tests.support.network import Pair, Wire
from tests.support.node import OTHER_KEY, SECRET_ID, SHARED_KEY
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower
from toolkit.dissect.frames import Verdict
from toolkit.dissect.keys import KeyBook

COVERED = frozenset({"BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE"})
by_mode = pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
by_direction = pytest.mark.parametrize("direction", Direction)


class ObservedLink:
    """The bytes between two endpoints up to AUTH_DONE, and their signatures."""

    def __init__(self, book: KeyBook, mode: ConMode = ConMode.CRC, auth: str = "cephx") -> None:
        self._follower = LinkFollower(book)
        self.keys = self._follower.keys
        self.sent = {direction: bytearray() for direction in Direction}
        self.signatures: dict[Direction, AuthSignature] = {}
        self._take = self.keys.control
        self.keys.control = self._control  # type: ignore[method-assign]
        pair = Pair(auth=auth, mode=mode)
        pair.opened = self._listen
        pair.established()

    def _listen(self, wire: Wire) -> None:
        for pipe, direction in zip(wire.pipes, (Direction.TO_SERVER, Direction.TO_CLIENT), strict=True):
            pipe.edit = lambda _at, raw, direction=direction: self._observe(direction, raw) or raw

    def _observe(self, direction: Direction, raw: bytes) -> None:
        for frame in self._follower.feed(direction, raw):
            if frame.tag in COVERED:
                self.sent[direction] += frame.raw

    def _control(self, direction: Direction, frame: ControlFrame) -> None:
        self._take(direction, frame)
        if isinstance(frame, AuthSignature):
            self.signatures[direction] = frame

    def verdict(self, direction: Direction, more: bytes = b"") -> Verdict:
        """Return the verdict on the signature in a direction; ``more``: further bytes its sender received."""
        return self.keys.signature_verdict(self.signatures[direction], self.sent[direction.other] + more)


def knowing(key=SHARED_KEY) -> KeyBook:
    """The endpoints' shared key, or another."""
    return KeyBook(services={EntityType.OSD: {SECRET_ID: key}})


@by_direction
@by_mode
def test_genuine_signatures_are_ok(direction: Direction, mode: ConMode) -> None:
    assert ObservedLink(knowing(), mode).verdict(direction) is Verdict.OK


@by_direction
@by_mode
def test_bytes_that_the_signature_does_not_cover(direction: Direction, mode: ConMode) -> None:
    observed = ObservedLink(knowing(), mode)
    assert observed.verdict(direction, b"\0") is Verdict.BAD
    observed.sent[direction.other][-1] ^= 1
    assert observed.verdict(direction) is Verdict.BAD


@by_direction
@pytest.mark.parametrize("book", [KeyBook(), knowing(OTHER_KEY)])
def test_without_the_key_there_is_no_verdict(direction: Direction, book: KeyBook) -> None:
    assert ObservedLink(book).verdict(direction) is Verdict.NO_KEY


@by_direction
def test_auth_none_signs_with_zeros(direction: Direction) -> None:
    observed = ObservedLink(KeyBook(), auth="none")
    assert observed.verdict(direction) is Verdict.OK
    assert observed.verdict(direction, b"more") is Verdict.OK
    assert observed.keys.signature_verdict(AuthSignature(b"\1" * 32), b"") is Verdict.BAD
