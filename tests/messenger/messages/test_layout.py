"""The layout engine, and the rules that every versioned structure keeps."""

import contextlib
import sys
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, ClassVar
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.denc.layout import U8, U16, U32, Since
from messenger.denc.utime import UTime
from messenger.errors import DecodeError
from messenger.messages import registry
from messenger.messages.layout import F32, I8, I16, Addrs, Enveloped, Fields, Rest, codec_of, layout_of
from messenger.messages.pg import PgId
from tests.support.payloads import values_of

assert registry  # defines every structure there is


def structures(base: type = Enveloped) -> list[type]:
    """Every versioned structure; dataclasses with slots leave an earlier self behind, which does not count."""
    direct = base.__subclasses__()
    found = [*direct, *(deeper for kind in direct for deeper in structures(kind))]
    actual = (kind for kind in found if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind)
    return sorted((kind for kind in actual if kind.__module__ != __name__), key=lambda kind: kind.__name__)


ENVELOPED = structures()
REST = codec_of(Rest)
V1, V2 = EntityAddr.parse("v1:10.0.0.1:6789/0"), EntityAddr.parse("v2:10.0.0.1:3300/0")


def coded(hint: object, value: object, features: int = ALL_FEATURES) -> str:
    encoder = Encoder()
    codec_of(hint).encode(encoder, value, features)
    return encoder.getvalue().hex()


def decoded(hint: object, image: str) -> object:
    return codec_of(hint).decode(Decoder(bytes.fromhex(image)), ALL_FEATURES)


def image_of(value: Enveloped, features: int = ALL_FEATURES) -> bytes:
    encoder = Encoder()
    value.encode(encoder, features)
    return encoder.getvalue()


@dataclass(frozen=True, slots=True)
class Sample(Enveloped):
    VERSION: ClassVar = 3
    COMPAT: ClassVar = 2
    OLDEST: ClassVar = 2
    WHAT: ClassVar = "sample"

    first: U8
    second: Annotated[U16, Since(3)] = 7


@dataclass(slots=True)
class Plain(Fields):
    VERSION: ClassVar = 2
    OLDEST: ClassVar = 1

    first: U8
    second: Annotated[list[U8], Since(2)] = field(default_factory=list)


@pytest.mark.parametrize(
    ("hint", "value", "image"),
    [
        (I8, -1, "ff"),
        (I16, -2, "feff"),
        (F32, 0.5, "0000003f"),
        (bool, True, "01"),
        (str, "ab", "020000006162"),
        (bytes, b"\1", "0100000001"),
        (UUID, UUID(int=1), "00" * 15 + "01"),
        (UTime, UTime(1, 2), "0100000002000000"),
        (PgId, PgId(3, 6), "01" + "0300000000000000" + "06000000" + "ffffffff"),
        (list[U8], [2, 1], "020000000201"),
        (set[U8], {3, 1, 2}, "03000000010203"),
        (tuple[U8, U16], (1, 2), "010200"),
        (dict[U8, bool], {2: True, 1: False}, "0200000001000201"),
        (dict[str, U8], {"b": 1, "a": 2}, "02000000" + "0100000061" + "02" + "0100000062" + "01"),
        (U8 | None, None, "00"),
        (U8 | None, 5, "0105"),
        (Sample, Sample(1), "0302" + "03000000" + "01" + "0700"),
        (Plain, Plain(1, [2]), "01" + "01000000" + "02"),
    ],
)
def test_types_and_their_bytes(hint, value, image):
    assert coded(hint, value) == image
    assert decoded(hint, image) == value


def test_keys_go_by_their_bytes():
    """Not by code points, nor by what an address looks like."""
    assert list(decoded(dict[str, U8], coded(dict[str, U8], {"\U00010000": 1, "\udcf0": 2}))) == [
        "\udcf0",
        "\U00010000",
    ]
    low_nonce, high_nonce = EntityAddr.parse("v1:1.1.1.1:1/255"), EntityAddr.parse("v1:1.1.1.1:1/256")
    addrs = dict[EntityAddr, U8]
    assert list(decoded(addrs, coded(addrs, {low_nonce: 1, high_nonce: 2}))) == [high_nonce, low_nonce]


@pytest.mark.parametrize("hint", [int, float, object, list[int]])
def test_types_without_an_encoding_are_refused(hint):
    with pytest.raises(TypeError, match="does not say how it is encoded"):
        codec_of(hint)


@pytest.mark.parametrize(
    ("hint", "size_bytes"),
    [(list[U32], 4), (dict[str, U32], 8), (list[Plain], 1), (list[Sample], 6), (set[UUID], 16), (list[UTime], 1)],
)
def test_counts_are_checked_before_anything_is_made(hint, size_bytes):
    enough, too_few = 100 * size_bytes, 100 * size_bytes - 1
    with pytest.raises(DecodeError, match=f"count 100 needs {enough} bytes, {too_few} left"):
        decoded(hint, "64000000" + "00" * too_few)


def test_addresses_of_before_nautilus():
    vector = AddrVec((V2, V1))
    assert coded(Addrs, vector) == coded(AddrVec, vector)
    assert coded(Addrs, vector, Feature.MSG_ADDR2) == coded(EntityAddr, V1, Feature.MSG_ADDR2)
    assert coded(Addrs, vector, 0) == V1.legacy_image().hex()
    assert decoded(Addrs, coded(Addrs, vector, 0)) == AddrVec((V1,))


def test_plain_fields_of_older_versions_get_their_defaults():
    assert Plain.decode(Decoder(b"\5"), 1, 0) == Plain(5)
    assert Plain.decode(Decoder(b"\5\1\0\0\0\6more"), 9, 0) == Plain(5, [6])
    with pytest.raises(DecodeError, match="Plain of version 0, at least 1 is known"):
        Plain.decode(Decoder(b"\5"), 0, 0)


def test_enveloped_fields_of_older_versions_get_their_defaults():
    image = bytes.fromhex("0201" + "01000000" + "05")
    value = Sample.decode(Decoder(image))
    assert value == Sample(5)
    assert value.struct_v == 2
    assert image_of(value) == bytes.fromhex("0202" + "01000000" + "05")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("0101" + "01000000" + "05", "sample of version 1, at least 2"),
        ("0404" + "00000000", "reader of version 4"),
    ],
)
def test_other_envelopes_are_refused(image, message):
    with pytest.raises(DecodeError, match=message):
        Sample.decode(Decoder(bytes.fromhex(image)))


@pytest.mark.parametrize("structure", ENVELOPED)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_tail_of_a_newer_struct_is_kept(structure, data):
    value = data.draw(values_of(structure))
    newer = image_of(replace(value, struct_v=structure.VERSION + 1, tail=b"news"))
    again = structure.decode(Decoder(newer), ALL_FEATURES)
    assert image_of(again) == newer
    assert image_of(again, features=0)[0] <= structure.VERSION + 1


@pytest.mark.parametrize("structure", ENVELOPED)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_an_envelope_too_short_for_its_fields_is_refused(structure, data):
    image = image_of(data.draw(values_of(structure)))
    body = image[6 : 6 + data.draw(st.integers(0, max(0, len(image) - 7)))]
    short = image[:2] + len(body).to_bytes(4, "little") + body
    is_open = layout_of(structure)[-1].codec is REST
    with contextlib.suppress(DecodeError) if is_open or len(image) == 6 else pytest.raises(DecodeError):
        structure.decode(Decoder(short), ALL_FEATURES)


@pytest.mark.parametrize("structure", ENVELOPED)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_each_known_version_reads_back_as_written(structure, data):
    version = data.draw(st.integers(structure.OLDEST, structure.VERSION))
    older = image_of(replace(data.draw(values_of(structure)), struct_v=version))
    assert older[0] == version
    again = structure.decode(Decoder(older), ALL_FEATURES)
    assert again.struct_v == version
    assert image_of(again) == older


def test_layouts_leave_bookkeeping_out():
    assert [item.name for item in layout_of(Sample)] == ["first", "second"]
    assert {item.name for item in fields(Sample)} >= {"struct_v", "tail"}
