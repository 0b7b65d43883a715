"""Messages on the v1 stream: headers, checksums, footers, signatures (docs/protocol.md §3.7, §10)."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.signature import aes256k_signer, aes_signer, legacy_signer
from messenger.crc import crc32c
from messenger.denc.address import EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.v1.framing import (
    COMPLETE,
    FOOTER,
    HEADER,
    NOCRC,
    OLD_HEADER_SIZE,
    SIGNED,
    Header,
    MessageWriter,
    Signer,
    StreamReader,
    decode_old_header,
    printable_message,
    stream_form,
)
from messenger.v1.wire import Ack

LIMIT = 1 << 20
MPING = bytes.fromhex(
    "070100000000000000000000000000000002007f00010000000000000000000000000000"
    "0008ffffffffffffffff01000000e092242d000000000000000000000000000000000000000001"
)
"""v1 MPing message with its tag (§10)."""
KEY = bytes(range(16))
SIGNERS = [aes_signer, legacy_signer, lambda key: aes256k_signer(key * 2)]

Parts = tuple[bytes, bytes, bytes]


def build(
    writer: MessageWriter,
    parts: tuple[Buffer, Buffer, Buffer] = (b"", b"", b""),
    seq: int = 1,
    tid: int = 0,
    type_: int = 2,
) -> bytes:
    """A message in one piece."""
    pieces: list[Buffer] = []
    length = writer.message(pieces, (seq, tid, type_, 127, 1), parts, 0, (8, -1), 1)
    raw = b"".join(pieces)
    assert len(raw) == length
    return raw


def read(reader: StreamReader, raw: bytes, *, owned: bool = False) -> tuple[Header, Parts, int]:
    """The message that is all of ``raw``."""
    view = memoryview(bytearray(b"before" + raw + b"behind"))
    frame = reader.next_frame(view, 6, 6 + len(raw), owned=owned)
    assert frame is not None
    assert len(frame) == 6
    stop, header, front, middle, data, flags = frame
    assert stop == 6 + len(raw)
    return Header._make(header), (bytes(front), bytes(middle), bytes(data)), flags


def fault(reader: StreamReader, raw: bytes) -> FaultReason:
    with pytest.raises(PeerError) as raised:
        reader.next_frame(memoryview(raw), 0, len(raw), owned=False)
    return raised.value.reason


def reader(signer: Signer | None = None, limit: int = LIMIT, **options: bool) -> StreamReader:
    return StreamReader(limit, signer, **options)


# ---- known bytes


def test_mping() -> None:
    assert build(MessageWriter()) == MPING
    header, parts, flags = read(reader(), MPING)
    assert header == Header(1, 0, 2, 127, 1, 0, 0, 0, 0, 8, -1, 1, 0, 0x2D2492E0)
    assert (parts, flags) == ((b"", b"", b""), COMPLETE)


def test_layout_sizes() -> None:
    assert (HEADER.size, FOOTER.size, OLD_HEADER_SIZE) == (53, 21, 334)


def test_parts_follow_the_header_and_their_crcs_have_seed_0() -> None:
    raw = build(MessageWriter(), (b"front", b"mid", b"data!"))
    assert raw[54:67] == b"frontmiddata!"
    front_crc, middle_crc, data_crc, sig, flags = FOOTER.unpack(raw[67:])
    assert (front_crc, middle_crc, data_crc) == (crc32c(b"front", 0), crc32c(b"mid", 0), crc32c(b"data!", 0))
    assert (sig, flags) == (0, COMPLETE)
    header = Header._make(HEADER.unpack(raw[1:54]))
    assert (header.front_len, header.middle_len, header.data_len) == (5, 3, 5)
    assert header.crc == crc32c(raw[1:50], 0)


def test_without_msg_auth_the_footer_has_no_signature() -> None:
    raw = build(MessageWriter(msg_auth=False), (b"front", b"", b""))
    assert len(raw) == 54 + 5 + 13
    assert raw[-13:] == crc32c(b"front", 0).to_bytes(4, "little") + bytes(8) + bytes([COMPLETE])
    assert read(reader(msg_auth=False), raw)[1] == (b"front", b"", b"")


def test_without_checksums_the_crcs_are_0_and_nocrc_is_set() -> None:
    raw = build(MessageWriter(sum_header=False, sum_data=False), (b"front", b"", b"data"))
    assert raw[50:54] == bytes(4)
    assert raw[-21:] == bytes(20) + bytes([COMPLETE | NOCRC])
    assert read(reader(check_header=False), raw)[2] == COMPLETE | NOCRC
    assert fault(reader(), raw) is FaultReason.HEADER_CRC


def test_the_header_of_old_senders_is_decoded() -> None:
    new = Header(3, 9, 15, 196, 2, 4, 5, 6, 7, 8, 4112, 0, 0, 0)
    inst = Struct("<Bq").pack(new.src_type, new.src_num) + bytes(136)
    other = Struct("<Bq").pack(1, 0) + bytes(136)
    head = Struct("<QQHHHIIIH").pack(*new[:9]) + inst + other + bytes(4)
    raw = head + crc32c(head, 0).to_bytes(4, "little")
    assert len(raw) == OLD_HEADER_SIZE
    assert decode_old_header(raw) == new._replace(crc=crc32c(head, 0))
    footer = FOOTER.pack(crc32c(b"fron", 0), crc32c(b"middl", 0), crc32c(b"data!!", 0), 0, COMPLETE)
    message = b"\x07" + raw + b"fron" + b"middl" + b"data!!" + footer
    header, parts, _ = read(reader(old_header=True), message)
    assert (header.seq, header.src_num, parts) == (3, 4112, (b"fron", b"middl", b"data!!"))
    assert fault(reader(old_header=True), message[:100] + b"\xff" + message[101:]) is FaultReason.HEADER_CRC
    with pytest.raises(DecodeError, match="334 are needed"):
        decode_old_header(raw[:-1])


def test_the_header_for_old_receivers_names_the_sender_and_its_address_twice() -> None:
    addr = EntityAddr.parse("v1:10.0.0.1:6801/7")
    raw = build(MessageWriter(old_header=True, addr=addr), (b"fron", b"middl", b"data!!"), seq=3, tid=9, type_=15)
    inst = Struct("<Bq").pack(8, -1) + addr.legacy_image()
    head = Struct("<QQHHHIIIH").pack(3, 9, 15, 127, 1, 4, 5, 6, 0) + inst + inst + bytes(4)
    assert raw[1 : 1 + OLD_HEADER_SIZE] == head + crc32c(head, 0).to_bytes(4, "little")
    header, parts, _ = read(reader(old_header=True), raw)
    assert (header.src_type, header.src_num, parts) == (8, -1, (b"fron", b"middl", b"data!!"))
    without_crc = build(MessageWriter(old_header=True, sum_header=False))
    assert without_crc[OLD_HEADER_SIZE - 3 : OLD_HEADER_SIZE + 1] == bytes(4)


@pytest.mark.parametrize("features", [ALL_FEATURES, 0, Feature.NOSRCADDR, Feature.MSG_AUTH])
def test_reader_and_writer_agree_by_the_negotiated_features(features: int) -> None:
    form = stream_form(features)
    raw = build(MessageWriter(**form), (b"front", b"mid", b"data"))
    assert len(raw) - 12 == 1 + (53 if features & Feature.NOSRCADDR else 334) + (
        21 if features & Feature.MSG_AUTH else 13
    )
    assert read(StreamReader(LIMIT, **form), raw)[1] == (b"front", b"mid", b"data")


def test_printed_headers() -> None:
    header, _, _ = read(reader(), build(MessageWriter(), (b"front", b"", b"data"), seq=7, tid=9, type_=15))
    assert printable_message(header) == {
        "type": 15,
        "name": "mon_subscribe",
        "seq": 7,
        "tid": 9,
        "priority": 127,
        "version": 1,
        "compat_version": 1,
        "front": 5,
        "middle": 0,
        "data": 4,
    }


# ---- tampering


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_every_changed_byte_is_noticed_or_in_an_unchecked_field(position: int, mask: int) -> None:
    """Nothing but the tag, the unused signature and the flag bits can change without a fault."""
    raw = bytearray(build(MessageWriter(), (b"front", b"mid", b"data")))
    position %= len(raw)
    raw[position] ^= mask
    try:
        header, parts, _ = read(reader(), bytes(raw))
    except (PeerError, AssertionError):
        return
    assert len(raw) - 9 <= position
    assert header.crc == crc32c(raw[1:50], 0)
    if not raw[-1] & NOCRC:
        assert parts == (b"front", b"mid", b"data")


@pytest.mark.parametrize(
    ("offset", "reason"),
    [(9, FaultReason.HEADER_CRC), (54, FaultReason.SEGMENT_CRC), (59, FaultReason.SEGMENT_CRC)],
)
def test_wrong_crcs(offset: int, reason: FaultReason) -> None:
    raw = bytearray(build(MessageWriter(), (b"front", b"mid", b"data")))
    raw[offset] ^= 1
    assert fault(reader(), bytes(raw)) is reason


def test_options_disable_the_checks_of_crcs() -> None:
    raw = bytearray(build(MessageWriter(), (b"front", b"mid", b"data")))
    raw[54] ^= 1
    raw[-25] ^= 1
    assert fault(reader(check_header=False), bytes(raw)) is FaultReason.SEGMENT_CRC
    assert fault(reader(check_data=False), bytes(raw)) is FaultReason.SEGMENT_CRC
    assert read(reader(check_header=False, check_data=False), bytes(raw))[1][0] != b"front"


@pytest.mark.parametrize("part", [0, 1, 2])
def test_an_absent_part_has_crc_0(part: int) -> None:
    raw = bytearray(build(MessageWriter()))
    raw[54 + 4 * part] = 1
    assert fault(reader(), bytes(raw)) is FaultReason.SEGMENT_CRC


def test_a_message_that_its_sender_aborted_is_a_fault() -> None:
    raw = bytearray(build(MessageWriter(), (b"front", b"", b"")))
    raw[-1] &= ~COMPLETE
    raw[54] ^= 1  # what came before the abort need not be right
    assert fault(reader(), bytes(raw)) is FaultReason.ABORTED


# ---- signatures


@pytest.mark.parametrize("make", SIGNERS)
def test_signed_messages_are_accepted_with_the_same_key_only(make: object) -> None:
    raw = build(MessageWriter(make(KEY)), (b"front", b"mid", b"data"), seq=0x1_0000_0005)  # type: ignore[operator]
    assert raw[-1] == COMPLETE | SIGNED
    assert read(reader(make(KEY)), raw)[1] == (b"front", b"mid", b"data")  # type: ignore[operator]
    assert fault(reader(make(bytes(16))), raw) is FaultReason.MESSAGE_SIGNATURE  # type: ignore[operator]


def test_an_unsigned_message_is_a_fault_where_signatures_are_due() -> None:
    with pytest.raises(PeerError, match="missing on type 2 seq 1"):
        read(reader(aes_signer(KEY)), MPING)


@pytest.mark.parametrize("make", [aes_signer, lambda key: aes256k_signer(key * 2)])
@given(changed=st.sampled_from([1, 17, 54, 59, 62]))
def test_data_and_crc_changed_together_are_noticed(make: object, changed: int) -> None:
    """An attacker who changes the bytes can repair every crc, but not the signature (V1-15)."""
    raw = bytearray(build(MessageWriter(make(KEY)), (b"front", b"mid", b"data")))  # type: ignore[operator]
    raw[changed] ^= 1
    raw[50:54] = crc32c(raw[1:50], 0).to_bytes(4, "little")
    crcs = [crc32c(raw[start:stop], 0) for start, stop in ((54, 59), (59, 62), (62, 66))]
    raw[66:78] = Struct("<III").pack(*crcs)
    assert read(reader(), bytes(raw))[0].seq is not None
    assert fault(reader(make(KEY)), bytes(raw)) is FaultReason.MESSAGE_SIGNATURE  # type: ignore[operator]


# ---- sizes


@pytest.mark.parametrize("lengths", [(LIMIT, 0, 0), (0, 0, 2**32 - 1), (2**32 - 1,) * 3])
def test_long_messages_are_refused_by_their_header(lengths: tuple[int, int, int]) -> None:
    head = Struct("<QQHHHIIIHBqHH").pack(1, 0, 2, 127, 1, *lengths, 0, 8, -1, 1, 0)
    raw = b"\x07" + head + crc32c(head, 0).to_bytes(4, "little")
    assert fault(reader(), raw) is FaultReason.OVERSIZE


def test_a_message_of_just_the_limit_passes() -> None:
    raw = build(MessageWriter(), (b"", b"", bytes(1000)))
    assert read(reader(limit=len(raw)), raw)[1][2] == bytes(1000)
    assert fault(reader(limit=len(raw) - 1), raw) is FaultReason.OVERSIZE


def test_needed_is_the_length_of_an_incomplete_message() -> None:
    raw = build(MessageWriter(), (b"", b"", bytes(1000)))
    cut = reader()
    assert cut.next_frame(memoryview(raw), 0, 53, owned=False) is None
    assert cut.needed == 0
    assert cut.next_frame(memoryview(raw), 0, 54, owned=False) is None
    assert cut.needed == len(raw)
    assert cut.next_frame(memoryview(b"\x08"), 0, 1, owned=False) is None
    assert cut.needed == 0


def test_large_parts_are_slices_of_an_owned_buffer_and_pieces_of_a_write() -> None:
    data = bytes(100_000)
    pieces: list[Buffer] = []
    MessageWriter().message(pieces, (1, 0, 2, 127, 1), (b"", b"", data), 0, (8, -1), 1)
    assert any(piece is data for piece in pieces)
    view = memoryview(bytearray(b"".join(pieces)))
    frame = reader().next_frame(view, 0, len(view), owned=True)
    assert frame is not None
    assert len(frame) == 6
    assert isinstance(frame[4], memoryview)
    assert frame[4].obj is view.obj


# ---- any stream

PART = st.binary(max_size=50)


@given(
    parts=st.tuples(PART, PART, PART),
    seq=st.integers(0, 2**64 - 1),
    msg_auth=st.booleans(),
    old_header=st.booleans(),
    signed=st.booleans(),
    sum_data=st.booleans(),
    owned=st.booleans(),
)
def test_messages_survive_the_wire(
    parts: Parts, seq: int, *, msg_auth: bool, old_header: bool, signed: bool, sum_data: bool, owned: bool
) -> None:
    signer = aes_signer(KEY) if signed and msg_auth else None
    writer = MessageWriter(signer, msg_auth=msg_auth, old_header=old_header, sum_data=sum_data)
    raw = build(writer, parts, seq)
    header, received, _ = read(reader(signer, msg_auth=msg_auth, old_header=old_header), raw, owned=owned)
    assert (header.seq, received) == (seq, parts)
    cut = reader(signer, msg_auth=msg_auth, old_header=old_header)
    assert all(cut.next_frame(memoryview(raw), 0, size, owned=False) is None for size in range(1, len(raw)))


@given(raw=st.binary(min_size=1, max_size=400), message=st.booleans(), old_header=st.booleans())
def test_any_bytes_are_frames_or_a_typed_fault(raw: bytes, *, message: bool, old_header: bool) -> None:
    raw = b"\x07" + raw if message else raw
    cut = reader(check_header=False, check_data=False, old_header=old_header)
    position = 0
    while position < len(raw):
        try:
            frame = cut.next_frame(memoryview(raw), position, len(raw), owned=False)
        except PeerError:
            return
        if frame is None:
            return
        assert frame[0] > position
        position = frame[0]


def test_small_frames_pass_between_messages() -> None:
    raw = memoryview(MPING + Ack(7).encode() + MPING)
    cut = reader()
    first = cut.next_frame(raw, 0, len(raw), owned=False)
    assert first is not None
    second = cut.next_frame(raw, first[0], len(raw), owned=False)
    assert second == (len(MPING) + 9, Ack(7))


@pytest.mark.parametrize("old_header", [False, True])
def test_head_of_a_frame_gives_the_size_for_throttles(old_header: bool) -> None:  # noqa: FBT001
    message = build(MessageWriter(old_header=old_header), (b"front", b"mid", b"data"))
    view = memoryview(b"\x08" + message)
    heads = reader(old_header=old_header)
    assert heads.head(view, 1, len(view)) == (7, 12)
    assert heads.needed == len(message)
    assert heads.head(view, 0, len(view)) == (8, 0), "an ACK has no parts"
    assert heads.head(view, 1, 40) is None
    assert heads.needed == 0
