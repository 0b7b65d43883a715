"""States of a v1 link, with the names of Ceph's AsyncMessenger (docs/protocol.md §3.11).

Ceph's states between the parts of a message (THROTTLE_*, READ_*) do not exist here, because a message is read as a
whole. CONNECTING_WAIT_ACK_SEQ, between the reply SEQ and the in_seq after it, was a state of Ceph up to Mimic;
later releases read the in_seq in CONNECTING_SEND_CONNECT_MSG.
"""

from enum import StrEnum


class LinkState(StrEnum):
    """State of a link from the dial or accept to its end."""

    START_CONNECT = "START_CONNECT"
    CONNECTING = "CONNECTING"
    CONNECTING_WAIT_BANNER_AND_IDENTIFY = "CONNECTING_WAIT_BANNER_AND_IDENTIFY"
    CONNECTING_SEND_CONNECT_MSG = "CONNECTING_SEND_CONNECT_MSG"
    CONNECTING_WAIT_ACK_SEQ = "CONNECTING_WAIT_ACK_SEQ"
    START_ACCEPT = "START_ACCEPT"
    ACCEPTING = "ACCEPTING"
    ACCEPTING_WAIT_CONNECT_MSG_AUTH = "ACCEPTING_WAIT_CONNECT_MSG_AUTH"
    ACCEPTING_HANDLED_CONNECT_MSG = "ACCEPTING_HANDLED_CONNECT_MSG"
    OPENED = "OPENED"
    CLOSED = "CLOSED"
