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
        (66, "paxos"),
        (80, "pg_notify"),
        (83, "PGlog"),
        (87, "pg_stats"),
        (100, "mdsbeacon"),
        (103, "fsmap.user"),
        (105, "MOSDPGPush"),
        (113, "osd_repop_reply"),
        (114, "pg_update_log_missing"),
        (116, "osd_pg_created"),
        (131, "pg_query2"),
        (133, "pg_lease"),
        (140, "mon_ping"),
        (0x310, "client_caps"),
        (0x502, "mdsping"),
        (0x609, "time_check"),
        (0x703, "mgrbeacon"),
        (0x706, "monmgrreport"),
        (0x704, "mgrmap"),
        (900, "unknown(900)"),
    ],
)
def test_names_are_those_of_ceph_logs(number, name):
    assert message_name(number) == name


def test_names_distinguish_types():
    assert len({message_name(kind) for kind in MessageType}) == len(MessageType)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "SHUTDOWN"), (123, "OSD_MARK_ME_DEAD"), (0x20A, "MDS_OFFLOAD_TARGETS"), (0x801, "MNVMEOF_GW_BEACON")],
)
def test_table(number, name):
    assert MessageType(number).name == name


def test_the_table_is_that_of_ceph_20_2():
    """By docs/protocol.md §6.1: how many types there are, and their sum."""
    assert (len(MessageType), sum(MessageType)) == (178, 81_012)
