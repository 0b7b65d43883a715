"""A man in the middle of the handshake is noticed by the signatures (docs/protocol.md §4.7; INV-10)."""

from collections.abc import Iterator

import pytest

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.session.policy import LOSSLESS_CLIENT
from messenger.session.session import SessionState
from messenger.v2.framing import CrcReader, CrcWriter
from messenger.v2.wire import AuthRequest, Tag
from tests.support.network import Pair, Pipe, Wire

BANNER_BYTES = 26
DIRECTIONS = (0, 1)
"""To the acceptor, to the connector."""

by_direction = pytest.mark.parametrize("direction", DIRECTIONS, ids=["to acceptor", "to connector"])
by_mode = pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])


def new_pair(mode: ConMode) -> Pair:
    return Pair(LOSSLESS_CLIENT, auth="cephx", mode=mode)


def frames_until(pipe: Pipe, last: Tag) -> Iterator[tuple[int, int, int]]:
    """Start, end and tag of the plain frames behind the banner, up to one with tag ``last``."""
    reader, position, tag = CrcReader(1 << 20), BANNER_BYTES, 0
    raw = memoryview(bytes(pipe.log))
    while tag != last:
        frame = reader.next_frame(raw, position, len(raw), owned=False)
        assert frame is not None
        yield position, frame[0], (tag := frame[1])
        position = frame[0]


LAST_PLAIN = (Tag.AUTH_REQUEST_MORE, Tag.AUTH_DONE)
"""The last frame before keys are in use, by direction."""


def preauth_frames(direction: int) -> list[tuple[int, int, int]]:
    pair = new_pair(ConMode.CRC)
    pair.established()
    return list(frames_until(pair.wire.pipes[direction], LAST_PLAIN[direction]))


def run_with(pair: Pair, direction: int, position: int, changed: bytes) -> None:
    """Connect while the bytes from ``position`` on are replaced, and check that no session comes of it."""

    def edit(start: int, raw: bytes) -> bytes:
        piece = bytearray(raw)
        for offset, byte in enumerate(changed, position - start):
            if 0 <= offset < len(piece):
                piece[offset] = byte
        return bytes(piece)

    def tap(wire: Wire) -> None:
        wire.pipes[direction].edit = edit

    pair.opened = tap
    mine = pair.connect()
    pair.a.send(mine, 1)
    pair.drive()
    assert mine.state is not SessionState.READY
    assert pair.b.endpoint.sessions == []
    assert pair.b.delivered == []


@by_mode
@by_direction
def test_no_flipped_byte_before_the_signatures_leads_to_a_session(mode: ConMode, direction: int) -> None:
    clean = new_pair(mode)
    clean.established()
    log = clean.wire.pipes[direction].log
    (*_, (_, end, _)) = preauth_frames(direction)
    signature_bytes = 68 if mode is ConMode.CRC else 96
    for position in range(end + signature_bytes):
        pair = new_pair(mode)
        run_with(pair, direction, position, bytes([log[position] ^ 0x01]))


@by_mode
@by_direction
def test_no_changed_payload_with_a_good_crc_leads_to_a_session(mode: ConMode, direction: int) -> None:
    clean = new_pair(mode)
    clean.established()
    log = clean.wire.pipes[direction].log
    signed = 0
    for start, end, tag in preauth_frames(direction):
        payload = bytes(log[start + 32 : end - 4])
        for offset in range(len(payload)):
            changed = bytearray(payload)
            changed[offset] ^= 0x01
            pair = new_pair(mode)
            run_with(pair, direction, start, CrcWriter().control(tag, bytes(changed)))
            signed += FaultReason.AUTH_SIGNATURE in pair.a.faults + pair.b.faults
    assert signed > 0


@by_mode
@by_direction
def test_compression_stripped_from_a_banner_is_noticed(mode: ConMode, direction: int) -> None:
    pair = new_pair(mode)
    run_with(pair, direction, 10, (1).to_bytes(8, "little"))
    victim = pair.b if direction else pair.a
    assert victim.faults[0] is FaultReason.AUTH_SIGNATURE


@by_mode
@by_direction
def test_a_revision_stripped_from_a_banner_leads_to_no_session(mode: ConMode, direction: int) -> None:
    """Then the two sides speak different frames, before any signature."""
    pair = new_pair(mode)
    run_with(pair, direction, 10, bytes(8))
    assert pair.a.faults + pair.b.faults != []


def test_secure_mode_stripped_from_the_request_is_noticed() -> None:
    """The middle takes ``secure`` off the list of modes and mends the crc."""

    def prefer_secure() -> Pair:
        pair = new_pair(ConMode.SECURE)
        for node in pair.a, pair.b:
            node.endpoint.config.ms_cluster_mode = "secure crc"
        return pair

    clean = prefer_secure()
    mine, _ = clean.established()
    assert mine.link is not None
    assert mine.link.con_mode is ConMode.SECURE
    start, end, tag = list(frames_until(clean.wire.to_acceptor, Tag.AUTH_REQUEST))[-1]
    request = AuthRequest.decode(clean.wire.to_acceptor.log[start + 32 : end - 4])
    assert request.preferred_modes == [ConMode.SECURE, ConMode.CRC]
    request.preferred_modes = [ConMode.CRC, ConMode.CRC]
    pair = prefer_secure()
    run_with(pair, 0, start, CrcWriter().control(tag, request.encode()))
    assert pair.a.faults == [FaultReason.AUTH_SIGNATURE]
