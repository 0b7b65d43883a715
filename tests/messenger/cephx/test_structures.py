"""Codecs of the structures: layouts of docs/protocol.md §5.3, round trips, and hostile bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.authorizer import Authorizer
from messenger.cephx.keys import CryptoKey
from messenger.cephx.structures import (
    AuthCapsInfo,
    Authenticate,
    Authorize,
    AuthorizeChallenge,
    AuthorizeReply,
    AuthTicket,
    ExpiringCryptoKey,
    Prelude,
    RequestHeader,
    ResponseHeader,
    RotatingSecrets,
    ServerChallenge,
    ServiceTicket,
    ServiceTicketInfo,
    ServiceTicketRequest,
    TicketBlob,
)
from messenger.denc.codec import Decoder
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.layout import Structure, encoded
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from tests.support.refusals import read_or_refused

U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
BLOBS = st.binary(max_size=40)
TIMES = st.builds(UTime, U32, U32)
KEYS = st.builds(CryptoKey, st.just(1), st.binary(min_size=16, max_size=16), TIMES)
NAMES = st.builds(AuthName, st.sampled_from(EntityType), st.text(max_size=8))
TICKET_BLOBS = st.builds(TicketBlob, U64, BLOBS)
CAPS = st.builds(AuthCapsInfo, st.booleans(), BLOBS)
AUTH_TICKETS = st.builds(AuthTicket, NAMES, U64, U64, TIMES, TIMES, CAPS, U32)
EXPIRING_KEYS = st.builds(ExpiringCryptoKey, KEYS, TIMES)

STRUCTURES = {
    Prelude: st.builds(Prelude, U8, NAMES, U64),
    ServerChallenge: st.builds(ServerChallenge, U64),
    RequestHeader: st.builds(RequestHeader, U16),
    ResponseHeader: st.builds(ResponseHeader, U16, I32),
    TicketBlob: TICKET_BLOBS,
    Authenticate: st.builds(Authenticate, U64, U64, TICKET_BLOBS, U32, st.integers(2, 3)),
    ServiceTicketRequest: st.builds(ServiceTicketRequest, U32),
    ServiceTicket: st.builds(ServiceTicket, KEYS, TIMES),
    AuthCapsInfo: CAPS,
    AuthTicket: AUTH_TICKETS,
    ServiceTicketInfo: st.builds(ServiceTicketInfo, AUTH_TICKETS, KEYS),
    Authorize: st.builds(Authorize, U64, st.booleans(), U64),
    AuthorizeChallenge: st.builds(AuthorizeChallenge, U64),
    AuthorizeReply: st.builds(AuthorizeReply, U64, BLOBS),
    ExpiringCryptoKey: EXPIRING_KEYS,
    RotatingSecrets: st.builds(RotatingSecrets, st.dictionaries(U64, EXPIRING_KEYS, max_size=3), U64),
    Authorizer: st.builds(Authorizer, U64, U32, TICKET_BLOBS, BLOBS),
}
by_type = pytest.mark.parametrize("structure", STRUCTURES, ids=lambda structure: structure.__name__)


@by_type
@given(st.data())
def test_roundtrip_and_truncation(structure: type[Structure], data: st.DataObject) -> None:
    value = data.draw(STRUCTURES[structure])
    wire = encoded(value)
    decoder = Decoder(wire + b"tail")
    assert structure.decode(decoder) == value
    assert decoder.rest() == b"tail"
    size = data.draw(st.integers(0, len(wire) - 1))
    with pytest.raises(DecodeError):
        structure.decode(Decoder(wire[:size]))


@by_type
@given(st.binary(max_size=120))
def test_random_bytes_decode_or_raise_decode_error(structure: type[Structure], wire: bytes) -> None:
    value = read_or_refused(lambda: structure.decode(Decoder(wire)), DecodeError)
    assert value is None or structure.decode(Decoder(encoded(value))) == value


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (Prelude(10, AuthName(EntityType.CLIENT, "a"), 5), "0a 08000000 01000000 61 0500000000000000"),
        (ServerChallenge(1), "01 0100000000000000"),
        (RequestHeader(0x100), "0001"),
        (ResponseHeader(0x100, -13), "0001 f3ffffff"),
        (TicketBlob(2, b"xy"), "01 0200000000000000 02000000 7879"),
        (
            Authenticate(1, 2, TicketBlob(), 0x35),
            "03 0100000000000000 0200000000000000 01 0000000000000000 00000000 35000000",
        ),
        (ServiceTicketRequest(4), "01 04000000"),
        (AuthCapsInfo.from_text("r"), "01 00 05000000 01000000 72"),
        (AuthCapsInfo.from_text(""), "01 00 00000000"),
        (Authorize(3), "02 0300000000000000 00 0000000000000000"),
        (Authorize(3, True, 9), "02 0300000000000000 01 0900000000000000"),
        (AuthorizeReply(4), "01 0400000000000000"),
        (AuthorizeReply(4, b"s"), "02 0400000000000000 01000000 73"),
        (RotatingSecrets({}, 7), "01 00000000 0700000000000000"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layout(value: Structure, wire: str) -> None:
    assert encoded(value).hex() == wire.replace(" ", "")


def test_old_versions() -> None:
    one = Authorize.decode(Decoder(bytes.fromhex("01 0300000000000000")))
    assert one == Authorize(3, have_challenge=False)
    wire = "01 0100000000000000 0200000000000000 01 0000000000000000 00000000"
    first = Authenticate.decode(Decoder(bytes.fromhex(wire)))
    assert first == Authenticate(1, 2, version=1)
    assert encoded(first) == bytes.fromhex(wire)


def test_count_of_rotating_secrets_is_checked_before_use() -> None:
    with pytest.raises(DecodeError, match="count 4294967295"):
        RotatingSecrets.decode(Decoder(b"\1\xff\xff\xff\xff" + bytes(100)))


def test_secrets_stay_out_of_repr() -> None:
    assert "hidden" not in repr(AuthorizeReply(1, b"hidden"))
