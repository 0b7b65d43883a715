from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.address import BLANK, MOST_ADDRS, AddressFamily, AddressType, AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, MSG_ADDR2, Feature
from messenger.errors import DecodeError, LocalError
from tests.support.refusals import read_or_refused

NO_ADDR2 = ALL_FEATURES & ~MSG_ADDR2

u32 = st.integers(0, 2**32 - 1)
types = st.sampled_from(AddressType)
v4_addrs = st.builds(EntityAddr, types, u32, st.integers(0, 65535), st.binary(min_size=4, max_size=4))
v6_addrs = st.builds(EntityAddr, types, u32, st.integers(0, 65535), st.binary(min_size=16, max_size=16), u32, u32)
blank_addrs = st.builds(EntityAddr.blank, types, u32)
addrs = st.one_of(v4_addrs, v6_addrs, blank_addrs)
addrvecs = st.builds(AddrVec, st.lists(addrs, max_size=4).map(tuple))


def encoded(value: EntityAddr | AddrVec, features: int = ALL_FEATURES) -> bytes:
    encoder = Encoder()
    value.encode(encoder, features)
    return encoder.getvalue()


# docs/protocol.md §10
FORM_B = [
    (
        "v2:10.1.2.3:6789/287454020",
        "0101011c00000002000000443322111000000002001a850a0102030000000000000000",
    ),
    (
        "v2:[fd00::1]:3300/7",
        "0101012800000002000000070000001c0000000a000ce400000000fd00000000000000000000000000000100000000",
    ),
]
ADDRVEC = (
    "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]",
    (
        "02020000000101011c00000002000000000000001000000002000ce47f0000010000000000000000"
        "0101011c00000001000000000000001000000002001a857f0000010000000000000000"
    ),
)


@pytest.mark.parametrize(("text", "image"), FORM_B)
def test_form_b_vectors(text, image):
    addr = EntityAddr.parse(text)
    assert encoded(addr).hex() == image
    assert EntityAddr.decode(Decoder(bytes.fromhex(image))) == addr
    assert str(addr) == text


def test_form_a_vector():
    addr = EntityAddr.parse("v1:10.1.2.3:6789/287454020")
    image = encoded(addr, NO_ADDR2)
    assert image == addr.legacy_image()
    assert image.hex() == "000000004433221100021a850a0102030000000000000000" + "00" * 112
    assert EntityAddr.decode(Decoder(image)) == addr


def test_addrvec_vector():
    text, image = ADDRVEC
    vector = AddrVec.parse(text)
    assert encoded(vector).hex() == image
    assert AddrVec.decode(Decoder(bytes.fromhex(image))) == vector
    assert str(vector) == text


def test_blank_address_takes_47_bytes():
    image = encoded(BLANK)
    assert image.hex() == "01010128000000" + "00" * 8 + "1c000000" + "00" * 28
    assert EntityAddr.decode(Decoder(image)) == BLANK


@given(addrs)
def test_form_b_roundtrip(addr):
    decoder = Decoder(encoded(addr) + b"behind")
    assert EntityAddr.decode(decoder) == addr
    assert decoder.rest() == b"behind"


@given(addrs)
def test_form_a_keeps_all_but_the_type(addr):
    decoder = Decoder(encoded(addr, NO_ADDR2) + b"behind")
    addr_type = AddressType.LEGACY if addr.ip else AddressType.NONE
    assert EntityAddr.decode(decoder) == replace(addr, type=addr_type)
    assert decoder.rest() == b"behind"


@given(addrvecs)
def test_addrvec_roundtrip(vector):
    assert AddrVec.decode(Decoder(encoded(vector))) == vector


@given(addrvecs)
def test_addrvec_for_old_peers_is_the_legacy_address_alone(vector):
    assert encoded(vector, NO_ADDR2) == encoded(vector.legacy_addr(), NO_ADDR2)


def test_type_any_is_hidden_from_peers_before_nautilus():
    addr = EntityAddr.from_host("10.0.0.1", 0, AddressType.ANY, 5)
    old = ALL_FEATURES & ~(Feature.SERVER_NAUTILUS & ~Feature.SERVER_MIMIC)
    assert EntityAddr.decode(Decoder(encoded(addr, old))).type is AddressType.LEGACY
    assert EntityAddr.decode(Decoder(encoded(addr))).type is AddressType.ANY


@given(addrs, st.sampled_from([ALL_FEATURES, NO_ADDR2]))
def test_addrvec_reads_a_single_address_in_either_form(addr, features):
    image = encoded(addr, features)
    assert AddrVec.decode(Decoder(image)) == AddrVec((EntityAddr.decode(Decoder(image)),))


@pytest.mark.parametrize(
    "image",
    [
        *(bytes.fromhex(image) for _, image in FORM_B),
        bytes.fromhex(ADDRVEC[1]),
        encoded(BLANK),
        EntityAddr.parse("10.1.2.3:6789").legacy_image(),
    ],
)
def test_truncated_anywhere(image):
    for size in range(len(image)):
        with pytest.raises(DecodeError):
            AddrVec.decode(Decoder(image[:size]))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_refused(data):
    for prefix in (b"", b"\0", b"\x01", b"\x01\x01\x01\x1c\0\0\0", b"\x02"):
        addrs = read_or_refused(lambda raw=prefix + data: AddrVec.decode(Decoder(raw)), DecodeError)
        assert addrs is None or AddrVec.decode(Decoder(encoded(addrs))) == addrs


def form_b(addr_type: int, size: int, sockaddr: str) -> Decoder:
    body = addr_type.to_bytes(4, "little") + bytes(4) + size.to_bytes(4, "little") + bytes.fromhex(sockaddr)
    return Decoder(b"\x01\x01\x01" + len(body).to_bytes(4, "little") + body)


@pytest.mark.parametrize(
    ("size", "sockaddr", "expected"),
    [
        (0, "", EntityAddr(AddressType.MSGR2)),
        (2, "0200", EntityAddr(AddressType.MSGR2, ip=bytes(4))),
        (4, "02000ce4", EntityAddr(AddressType.MSGR2, port=3300, ip=bytes(4))),
        (2, "0000", EntityAddr(AddressType.MSGR2)),
        (16, "02000ce40a010203" + "ff" * 8, EntityAddr.parse("10.1.2.3:3300")),
    ],
)
def test_short_socket_addresses_are_accepted(size, sockaddr, expected):
    assert EntityAddr.decode(form_b(2, size, sockaddr)) == expected


@pytest.mark.parametrize(
    ("addr_type", "size", "sockaddr"),
    [
        (2, 1, "02"),
        (2, 17, "0200" + "00" * 15),
        (2, 29, "0a00" + "00" * 27),
        (2, 29, "0000" + "00" * 27),
        (2, 16, "0100" + "00" * 14),
        (2, 16, "0200" + "00" * 13),
        (9, 16, "0200" + "00" * 14),
    ],
)
def test_malformed_form_b(addr_type, size, sockaddr):
    with pytest.raises(DecodeError):
        EntityAddr.decode(form_b(addr_type, size, sockaddr))


def test_unknown_markers():
    with pytest.raises(DecodeError, match="marker 3"):
        AddrVec.decode(Decoder(b"\x03" + bytes(200)))
    with pytest.raises(DecodeError, match="marker 2"):
        EntityAddr.decode(Decoder(b"\x02" + bytes(200)))


def test_unknown_family_in_form_a():
    with pytest.raises(DecodeError, match="family 1"):
        EntityAddr.decode(Decoder(bytes(8) + b"\x00\x01" + bytes(126)))


def test_hostile_vector_count():
    with pytest.raises(DecodeError, match="count 4294967295"):
        AddrVec.decode(Decoder(b"\x02\xff\xff\xff\xff" + bytes(100)))


def test_the_longest_vector():
    longest = AddrVec((EntityAddr.parse("10.1.2.3:6789"),) * MOST_ADDRS)
    assert AddrVec.decode(Decoder(encoded(longest))) == longest
    with pytest.raises(DecodeError, match=f"count {MOST_ADDRS + 1}, at most {MOST_ADDRS} are accepted"):
        AddrVec.decode(Decoder(encoded(AddrVec((*longest.addrs, BLANK)))))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("10.1.2.3", "v2:10.1.2.3:0/0"),
        ("10.1.2.3:6789", "v2:10.1.2.3:6789/0"),
        ("10.1.2.3/5", "v2:10.1.2.3:0/5"),
        ("v1:10.1.2.3:6789/0", "v1:10.1.2.3:6789/0"),
        ("any:10.1.2.3:0/9", "10.1.2.3:0/9"),
        ("[::]:3300", "v2:[::]:3300/0"),
        (" v2:[FD00::0:1]:3300/7 ", "v2:[fd00::1]:3300/7"),
        ("-", "-"),
    ],
)
def test_text_forms(text, printed):
    assert str(EntityAddr.parse(text)) == printed


def test_unprefixed_text_takes_the_callers_type():
    assert EntityAddr.parse("10.1.2.3:6789", AddressType.LEGACY).type is AddressType.LEGACY
    assert AddrVec.parse("10.1.2.3:1,v1:10.1.2.3:2", AddressType.ANY).front.type is AddressType.ANY


@given(st.one_of(v4_addrs, v6_addrs))
def test_text_roundtrip(addr):
    named = addr.type in (AddressType.LEGACY, AddressType.MSGR2, AddressType.ANY)
    addr = replace(addr, flowinfo=0, scope_id=0, type=addr.type if named else AddressType.MSGR2)
    assert EntityAddr.parse(str(addr), AddressType.ANY) == addr


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("v2:1.2.3.4:3300,v1:1.2.3.4:6789", "[v2:1.2.3.4:3300/0,v1:1.2.3.4:6789/0]"),
        ("[v2:[fd00::1]:3300,v1:[fd00::1]:6789]", "[v2:[fd00::1]:3300/0,v1:[fd00::1]:6789/0]"),
        ("[1.2.3.4:3300]", "v2:1.2.3.4:3300/0"),
        ("[fd00::1]", "v2:[fd00::1]:0/0"),
        ("[fd00::1]:3300", "v2:[fd00::1]:3300/0"),
        ("[[fd00::1]:3300]", "v2:[fd00::1]:3300/0"),
        ("[fd00::1],[fd00::2]", "[v2:[fd00::1]:0/0,v2:[fd00::2]:0/0]"),
        ("1.2.3.4, 5.6.7.8", "[v2:1.2.3.4:0/0,v2:5.6.7.8:0/0]"),
        ("-", "-"),
        ("[]", "[]"),
    ],
)
def test_addrvec_text_forms(text, printed):
    assert str(AddrVec.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:6789",
        "v3:1.2.3.4:1",
        "1.2.3",
        "1.2.3.400",
        "fd00::1",
        "[fd00::g]",
        "[fd00::1",
        "1.2.3.4:",
        "1.2.3.4/-1",
    ],
)
def test_malformed_text_is_an_error_with_the_accepted_forms(text):
    for parse in (EntityAddr.parse, AddrVec.parse):
        with pytest.raises(LocalError, match=r"accepted: \[v1:\|v2:\|any:\]IP\[:PORT\]\[/NONCE\]"):
            parse(text)


@pytest.mark.parametrize("text", ["1.2.3.4:65536", "1.2.3.4:1/4294967296"])
def test_text_with_numbers_out_of_range(text):
    with pytest.raises(LocalError, match="is not between 0 and"):
        EntityAddr.parse(text)


@given(st.text(alphabet="v12:any[]./,-0 fd", max_size=20))
def test_arbitrary_text_parses_or_is_refused(text):
    addrs = read_or_refused(lambda: AddrVec.parse(text), LocalError)
    assert addrs is None or AddrVec.parse(str(addrs)) == addrs


@pytest.mark.parametrize(
    "fields",
    [{"ip": b"abc"}, {"port": -1}, {"port": 65536}, {"nonce": 2**32}, {"flowinfo": 2**32}, {"scope_id": -1}],
)
def test_fields_out_of_range(fields):
    with pytest.raises(LocalError):
        EntityAddr(**fields)


def test_from_host():
    assert EntityAddr.from_host("10.1.2.3", 3300) == EntityAddr.parse("v2:10.1.2.3:3300/0")
    link_local = EntityAddr.from_host("fe80::1%eth0", 1, AddressType.LEGACY, 2)
    assert link_local == EntityAddr.parse("v1:[fe80::1]:1/2")
    with pytest.raises(LocalError, match="'localhost' is not a numeric IP address"):
        EntityAddr.from_host("localhost", 1)


def test_host_has_the_form_that_sockets_take():
    assert EntityAddr.parse("[fd00::1]:3300").host == "fd00::1"
    assert EntityAddr.parse("10.1.2.3").host == "10.1.2.3"
    assert BLANK.host == ""
    assert [EntityAddr.parse(t).family for t in ("-", "1.2.3.4", "[::1]")] == list(AddressFamily)


def test_blankness():
    assert BLANK.is_blank
    assert not EntityAddr.blank(AddressType.ANY, 5).is_blank
    assert EntityAddr.blank(AddressType.ANY, 5).is_blank_ip
    assert EntityAddr.parse("0.0.0.0:1").is_blank_ip
    assert EntityAddr.parse("[::]:1").is_blank_ip
    assert not EntityAddr.parse("0.0.0.1:1").is_blank_ip


def test_sort_key_is_the_struct_in_memory():
    v4 = EntityAddr.parse("v2:10.1.2.3:3300/287454020").sort_key()
    assert v4.hex() == "02000000" + "44332211" + "0200" + "0ce4" + "0a010203" + "00" * 20
    v6 = EntityAddr(AddressType.LEGACY, 7, 3300, IPv6Address("fd00::1").packed, 0x01020304, 5).sort_key()
    assert v6.hex() == (
        "01000000" + "07000000" + "0a00" + "0ce4" + "01020304" + "fd" + "00" * 14 + "01" + "05000000"
    )
    assert BLANK.sort_key() == bytes(36)


def test_nonces_sort_by_their_least_significant_byte_first():
    low = EntityAddr.parse("10.0.0.1:1/256")
    high = EntityAddr.parse("10.0.0.1:1/1")
    assert low.sort_key() < high.sort_key()


@given(addrs, addrs)
def test_sort_keys_differ_where_addresses_do(one, other):
    assert (one.sort_key() == other.sort_key()) == (one == other)


def test_probably_equals():
    addr = EntityAddr.parse("v2:10.0.0.1:1/5")
    assert addr.probably_equals(EntityAddr.parse("v1:10.0.0.1:1/5"))
    assert addr.probably_equals(EntityAddr.parse("v1:0.0.0.0:1/5"))
    assert EntityAddr.parse("0.0.0.0:1/5").probably_equals(addr)
    assert not addr.probably_equals(EntityAddr.parse("10.0.0.2:1/5"))
    assert not addr.probably_equals(EntityAddr.parse("10.0.0.1:2/5"))
    assert not addr.probably_equals(EntityAddr.parse("10.0.0.1:1/6"))


def test_derived_addresses():
    mine = EntityAddr.blank(AddressType.ANY, 5)
    seen = EntityAddr.parse("v2:10.0.0.1:4711/0")
    assert str(mine.with_ip_of(seen)) == "10.0.0.1:0/5"
    assert str(seen.with_nonce(9)) == "v2:10.0.0.1:4711/9"


def test_addresses_of_a_vector_by_type():
    vector = AddrVec.parse(ADDRVEC[0])
    assert vector.front == vector.msgr2_addr() == EntityAddr.parse("v2:127.0.0.1:3300/0")
    assert vector.legacy_addr() == EntityAddr.parse("v1:127.0.0.1:6789/0")
    client = AddrVec((EntityAddr.parse("any:10.0.0.1"),))
    assert client.msgr2_addr() == client.legacy_addr() == BLANK
    assert AddrVec().front == BLANK


def test_vectors_are_containers_and_keys():
    vector = AddrVec.parse(ADDRVEC[0])
    assert vector.front in vector
    assert replace(vector.front, type=AddressType.ANY) not in vector
    assert [addr.port for addr in vector] == [3300, 6789]
    assert (len(vector), bool(AddrVec())) == (2, False)
    assert {vector: 1}[AddrVec.parse(ADDRVEC[0])] == 1
