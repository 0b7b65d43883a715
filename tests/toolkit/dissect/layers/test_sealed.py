"""Sealed frames as layers: the ciphertext as it is, and what is inside once it is opened.

See docs/protocol.md §4.5.
"""

import pytest

from messenger.errors import PeerError
from messenger.v2.wire import MESSAGE_HEADER
from tests.support.frames import message, reader, writer
from toolkit.dissect.layers import MSGR2, MSGR2_Ack, MSGR2_Hello, MSGR2_Message, MSGR2_Rev0, MSGR2_Secure

modes = pytest.mark.parametrize(("mode", "revision"), [("secure", 1), ("rev0 secure", 0)])


@modes
def test_a_message_is_sealed_and_opened(mode: str, revision: int) -> None:
    header = MESSAGE_HEADER.pack(5, 0, 42, 127, 1, 0, 0, 0, 3, 1, 0)
    raw = message(writer(mode), header, b"front", b"", b"data" * 100)
    sealed = MSGR2_Secure(raw)
    assert sealed.summary() == f"MSGR2 sealed {len(raw)} bytes"
    assert f"ciphertext= {len(raw)} bytes: " in sealed.show(dump=True)
    assert MSGR2_Message not in sealed
    opened = sealed.open(reader(mode), revision=revision).opened
    assert type(opened) is (MSGR2 if revision else MSGR2_Rev0)
    assert (opened.front, opened.data, sealed[MSGR2_Message].seq) == (b"front", b"data" * 100, 5)
    assert bytes(sealed) == raw
    assert sealed.summary().startswith("MSGR2 MESSAGE osd_op seq 5 tid 0 front 5 data 400 (")
    assert bytes(MSGR2_Secure.seal(opened, writer(mode))) == raw


@modes
@pytest.mark.parametrize("layer", [MSGR2_Ack(seq=5), MSGR2_Hello(entity_type="osd", peer_addr="v2:[fd00::1]:1/2")])
def test_a_control_frame_is_sealed_and_opened(mode: str, revision: int, layer: MSGR2_Ack) -> None:
    raw = writer(mode).control(layer.FRAME.TAG, bytes(layer))
    frame = (MSGR2 if revision else MSGR2_Rev0)() / layer
    assert bytes(MSGR2_Secure.seal(frame, writer(mode))) == raw
    assert bytes(MSGR2_Secure(raw).open(reader(mode), revision=revision)[type(layer)]) == bytes(layer)


def test_opened_frame_is_changed_and_sealed_again() -> None:
    sending, receiving = writer("secure"), reader("secure")
    sealed = MSGR2_Secure.seal(MSGR2() / MSGR2_Message(seq=1, front=b"old"), sending)
    sealed.open(receiving)
    raw = bytes(sealed)
    sealed.opened.front = b"changed"
    assert bytes(sealed) == raw
    again = MSGR2_Secure.seal(sealed.opened.recompute(), sending).open(receiving)
    assert again[MSGR2_Message].front == b"changed"


def test_the_wrong_frame_does_not_open() -> None:
    sending = writer("secure")
    MSGR2_Secure.seal(MSGR2() / MSGR2_Ack(seq=1), sending)
    second = MSGR2_Secure.seal(MSGR2() / MSGR2_Ack(seq=2), sending)
    second.opened = None
    with pytest.raises(PeerError):
        second.open(reader("secure"))
    assert second.opened is None
    assert MSGR2_Secure(bytes(second)[:50]).open(reader("secure")).opened is None
