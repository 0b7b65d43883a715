import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.errors import DecodeError, LocalError
from tests.support.refusals import read_or_refused

types = st.sampled_from(EntityType)
nums = st.integers(-(2**63), 2**63 - 1)


def encoded(value: EntityName | AuthName) -> bytes:
    encoder = Encoder()
    value.encode(encoder)
    return encoder.getvalue()


def test_layouts():
    assert encoded(EntityName(EntityType.OSD, 3)).hex() == "040300000000000000"
    assert encoded(EntityName(EntityType.CLIENT)).hex() == "08" + "ff" * 8
    assert encoded(AuthName(EntityType.CLIENT, "admin")).hex() == "080000000500000061646d696e"


@given(types, nums)
def test_entity_name_roundtrip(entity_type, num):
    name = EntityName(entity_type, num)
    assert EntityName.decode(Decoder(encoded(name))) == name


@given(types, st.text(max_size=20))
def test_auth_name_roundtrip_on_the_wire_and_as_text(entity_type, name_id):
    name = AuthName(entity_type, name_id)
    assert AuthName.decode(Decoder(encoded(name))) == name
    assert AuthName.parse(str(name)) == name


@given(st.binary(max_size=20), st.sampled_from([EntityName, AuthName]))
def test_arbitrary_bytes_decode_or_are_refused(data, name_type):
    name = read_or_refused(lambda: name_type.decode(Decoder(data)), DecodeError)
    assert name is None or name_type.decode(Decoder(encoded(name))) == name


@pytest.mark.parametrize("name", [EntityName(EntityType.MON, 0), AuthName(EntityType.MGR, "x")])
def test_truncated_names(name):
    data = encoded(name)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            type(name).decode(Decoder(data[:size]))


def test_texts():
    assert str(EntityName(EntityType.CLIENT)) == "client.?"
    assert str(EntityName(EntityType.OSD, 12)) == "osd.12"
    assert AuthName.parse("client.rgw.a") == AuthName(EntityType.CLIENT, "rgw.a")


def test_misuse_is_an_error_with_the_accepted_forms():
    with pytest.raises(LocalError, match=r"client\.admin"):
        AuthName.parse("admin")
    with pytest.raises(LocalError, match="known: mon, mds, osd"):
        AuthName.parse("host.a")


def test_unknown_type_on_the_wire():
    with pytest.raises(DecodeError, match="0x3"):
        EntityType.from_wire(3)
