"""Control frames as layers: the values and bytes of the codecs, both ways (docs/protocol.md §4.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.fields import RawVal
from scapy.packet import Raw, fuzz

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.layout import layout_of
from messenger.errors import LocalError
from messenger.v2.wire import CONTROL_FRAMES, SIGNATURE_SIZE, ControlFrame
from toolkit.dissect import layers
from toolkit.dissect.layers import (
    CONTROL_LAYERS,
    MSGR2_AuthBadMethod,
    MSGR2_AuthDone,
    MSGR2_AuthRequest,
    MSGR2_ClientIdent,
    MSGR2_CompressionRequest,
    MSGR2_Hello,
    MSGR2_SessionReset,
    MSGR2_Wait,
)

ADDR = st.builds(
    EntityAddr,
    type=st.sampled_from(list(AddressType)),
    nonce=st.integers(0, 2**32 - 1),
    port=st.integers(0, 65535),
    ip=st.sampled_from([4, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
)
U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "entity_type": st.sampled_from(list(EntityType)),
    "peer_addr": ADDR,
    "target_addr": ADDR,
    "addrs": st.lists(ADDR, max_size=3).map(lambda addrs: AddrVec(tuple(addrs))),
    "auth_payload": st.binary(max_size=60),
    "signature": st.binary(min_size=SIGNATURE_SIZE, max_size=SIGNATURE_SIZE),
    "gid": st.integers(-(2**63), 2**63 - 1),
    "result": st.integers(-(2**31), 2**31 - 1),
    "full": st.booleans(),
    "is_compress": st.booleans(),
    **dict.fromkeys(("preferred_modes", "allowed_modes", "allowed_methods", "methods"), st.lists(U32, max_size=4)),
    **dict.fromkeys(("method", "con_mode", "seconds", "nanoseconds"), U32),
}
"""By field; what is not here has 64 bits."""


def frames_of(frame: type[ControlFrame]) -> st.SearchStrategy[ControlFrame]:
    return st.builds(frame, **{name: VALUES.get(name, U64) for name, _, _ in layout_of(frame)})


FRAMES = st.sampled_from(list(CONTROL_FRAMES.values())).flatmap(frames_of)


def test_every_control_frame_has_a_layer_with_its_name() -> None:
    assert {tag: layer.FRAME for tag, layer in CONTROL_LAYERS.items()} == CONTROL_FRAMES
    for layer in CONTROL_LAYERS.values():
        assert layer.__name__ == f"MSGR2_{layer.FRAME.__name__}"
        assert getattr(layers, layer.__name__) is layer
        assert layer.__name__ in layers.__all__


@given(FRAMES)
def test_a_layer_is_built_as_the_codec_encodes(frame: ControlFrame) -> None:
    assert bytes(CONTROL_LAYERS[frame.TAG].of(frame)) == frame.encode()


@given(FRAMES)
def test_a_layer_is_dissected_as_the_codec_decodes(frame: ControlFrame) -> None:
    layer = CONTROL_LAYERS[frame.TAG](frame.encode())
    assert {name: getattr(layer, name) for name, _, _ in layout_of(type(frame))} == {
        name: getattr(frame, name) for name, _, _ in layout_of(type(frame))
    }
    assert layer.frame() == frame
    assert bytes(layer) == frame.encode()


@given(FRAMES, st.binary(min_size=1, max_size=20))
def test_bytes_after_the_fields_become_raw(frame: ControlFrame, more: bytes) -> None:
    if isinstance(layer := CONTROL_LAYERS[frame.TAG](frame.encode() + more), MSGR2_Wait):
        return  # has no fields to be behind
    assert layer[Raw].load == more
    assert bytes(layer) == frame.encode() + more


@given(FRAMES, st.integers(1, 200))
def test_truncated_control_frame_is_kept_and_marked(frame: ControlFrame, size: int) -> None:
    payload = frame.encode()[:size]
    layer = CONTROL_LAYERS[frame.TAG](payload)
    assert bytes(layer) == payload
    if len(payload) < len(frame.encode()):
        assert any(isinstance(value, RawVal) for value in layer.fields.values())
        assert "missing" in layer.show(dump=True) or "malformed" in layer.show(dump=True)


@given(st.sampled_from(list(CONTROL_LAYERS.values())), st.binary(min_size=1, max_size=200))
def test_any_bytes_are_dissected_and_built_again(layer: type, payload: bytes) -> None:
    packet = layer(payload)
    assert bytes(packet) == payload
    packet.show(dump=True)
    packet.summary()


def test_one_changed_field_leaves_the_others() -> None:
    ident = MSGR2_ClientIdent(addrs="v2:10.0.0.1:0/7", target_addr="v2:10.0.0.2:6800/9", global_seq=3)
    again = MSGR2_ClientIdent(bytes(ident))
    again.client_cookie = 5
    frame = again.frame()
    assert (frame.client_cookie, frame.global_seq, str(frame.addrs)) == (5, 3, "v2:10.0.0.1:0/7")


def test_a_list_may_be_changed_in_place() -> None:
    request = MSGR2_AuthRequest(bytes(MSGR2_AuthRequest(preferred_modes=["secure", "crc"])))
    request.preferred_modes.append(7)
    assert MSGR2_AuthRequest(bytes(request)).preferred_modes == [2, 1, 7]


def test_fields_accept_names_and_text() -> None:
    hello = MSGR2_Hello(entity_type="osd", peer_addr="v2:10.1.2.3:3300/0")
    assert hello.frame().entity_type is EntityType.OSD
    bad = MSGR2_AuthBadMethod(method="cephx", result=-13, allowed_methods="none", allowed_modes=["crc"])
    assert (bad.method, bad.allowed_methods, bad.allowed_modes) == (2, [1], [1])
    assert MSGR2_ClientIdent(flags="LOSSY").flags == 1
    assert MSGR2_CompressionRequest(is_compress=True, methods=["snappy", "zstd"]).methods == [1, 3]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: MSGR2_AuthDone(con_mode="fast"), ValueError),
        (lambda: MSGR2_Hello(entity_type="router"), LocalError),
        (lambda: MSGR2_Hello(peer_addr="nowhere"), LocalError),
        (lambda: MSGR2_Hello(peer="x"), AttributeError),
    ],
    ids=["mode", "entity", "address", "field"],
)
def test_wrong_name_is_an_immediate_error(make: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_numbers_are_shown_by_name() -> None:
    bad = MSGR2_AuthBadMethod(method=2, result=-13, allowed_methods=[1, 9], allowed_modes=[2])
    assert bad.summary() == (
        "MSGR2 AUTH_BAD_METHOD method CEPHX result -13 (EACCES) allowed_methods [NONE, 9] allowed_modes [SECURE]"
    )
    assert MSGR2_Hello(entity_type="mon", peer_addr="v2:10.0.0.1:1/2").summary() == (
        "MSGR2 HELLO entity_type mon peer_addr v2:10.0.0.1:1/2"
    )


def test_scapy_can_fuzz_a_layer() -> None:
    for layer in CONTROL_LAYERS.values():
        assert bytes(layer(bytes(fuzz(layer())))) is not None
    assert len({bytes(fuzz(MSGR2_SessionReset())) for _ in range(64)}) > 1
