import pytest

from messenger.denc.entity import AuthName, EntityName, EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.messages.message import PRIORITY_HIGH, Message
from messenger.messages.mon import MMonCommand, MMonCommandAck
from messenger.messages.mon_peer import EmbeddedMessage, MForward, MMonPing, MRoute
from messenger.messages.registry import decode_payload
from messenger.messages.types import MessageType
from tests.support.fronts import captured_payloads


def embedded() -> list[EmbeddedMessage]:
    return [payload.embedded for kind in (MForward, MRoute) for payload in captured_payloads(kind)]


def test_a_real_forward_carries_a_command():
    forward = captured_payloads(MForward)[0]
    assert (forward.client_type, forward.entity_name) == (EntityType.CLIENT, AuthName(EntityType.CLIENT, "admin"))
    assert forward.client_caps.text == "allow *"
    assert forward.con_features == CLIENT_FEATURES
    command = decode_payload(forward.embedded.message(), forward.con_features)
    assert isinstance(command, MMonCommand)
    assert '"prefix"' in command.cmd[0]


def test_a_real_route_carries_the_answer():
    answer = decode_payload(captured_payloads(MRoute)[1].embedded.message(), CLIENT_FEATURES)
    assert isinstance(answer, MMonCommandAck)
    assert answer.r == 0


@pytest.mark.parametrize("real", embedded(), ids=lambda real: f"type-{real.type}")
def test_embeds_as_monitors_do(real):
    """Lengths and crcs, which are those of msgr v1, included."""
    message = real.message()
    ours = EmbeddedMessage.of(message, EntityName(EntityType.CLIENT, real.src_num), CLIENT_FEATURES)
    ours_at_source = (ours.front_bytes, ours.front_crc, ours.data_crc, ours.flags, ours.front)
    assert ours_at_source == (real.front_bytes, real.front_crc, real.data_crc, real.flags, real.front)
    if real.src_type == EntityType.CLIENT:
        assert ours == real


def test_a_payload_is_encoded_when_it_is_embedded():
    ack = MMonCommandAck(-2, "no such thing", ["{}"], map_version=4)
    message = Message.of(ack, data=b"output", tid=9, priority=PRIORITY_HIGH)
    inside = EmbeddedMessage.of(message, EntityName(EntityType.MON, 0), CLIENT_FEATURES)
    assert (inside.type, inside.tid, inside.priority) == (MessageType.MON_COMMAND_ACK, 9, PRIORITY_HIGH)
    assert (inside.data, inside.data_bytes) == (b"output", 6)
    assert decode_payload(inside.message(), CLIENT_FEATURES) == ack


def test_an_answer_may_be_none():
    assert MRoute(5).embedded is None


def test_real_pings_have_op_1_and_no_padding():
    assert [(ping.op, ping.padding) for ping in captured_payloads(MMonPing)] == [(1, b""), (1, b"")]
