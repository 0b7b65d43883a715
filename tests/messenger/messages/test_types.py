import pytest

from messenger.messages.types import MessageType, message_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (2, "ping"),
        (4, "mon_map"),
        (5, "mon_getmap"),
        (15, "mon_subscribe"),
        (18, "auth_reply"),
        (41, "osd_map"),
        (42, "osd_op"),
        (43, "osd_op_reply"),
        (51, "mon_command_ack"),
        (62, "config"),
        (0x704, "mgrmap"),
        (900, "unknown(900)"),
    ],
)
def test_names_are_those_of_ceph_logs(number, name):
    assert message_name(number) == name


def test_names_tell_types_apart():
    assert len({message_name(kind) for kind in MessageType}) == len(MessageType)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "SHUTDOWN"), (123, "OSD_MARK_ME_DEAD"), (0x20A, "MDS_OFFLOAD_TARGETS"), (0x801, "MNVMEOF_GW_BEACON")],
)
def test_table(number, name):
    assert MessageType(number).name == name
