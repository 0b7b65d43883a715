"""States of one v2 link, under the names of Ceph's AsyncMessenger (protocol.md §4.11)."""

from enum import StrEnum


class LinkState(StrEnum):
    """Where a link stands between the dial or the accept and its end."""

    START_CONNECT = "START_CONNECT"
    BANNER_CONNECTING = "BANNER_CONNECTING"
    HELLO_CONNECTING = "HELLO_CONNECTING"
    AUTH_CONNECTING = "AUTH_CONNECTING"
    AUTH_CONNECTING_SIGN = "AUTH_CONNECTING_SIGN"
    SESSION_CONNECTING = "SESSION_CONNECTING"
    SESSION_RECONNECTING = "SESSION_RECONNECTING"
    BANNER_ACCEPTING = "BANNER_ACCEPTING"
    HELLO_ACCEPTING = "HELLO_ACCEPTING"
    AUTH_ACCEPTING = "AUTH_ACCEPTING"
    AUTH_ACCEPTING_MORE = "AUTH_ACCEPTING_MORE"
    AUTH_ACCEPTING_SIGN = "AUTH_ACCEPTING_SIGN"
    SESSION_ACCEPTING = "SESSION_ACCEPTING"
    READY = "READY"
    CLOSED = "CLOSED"


PREAUTH_STATES = frozenset(
    {
        LinkState.START_CONNECT,
        LinkState.BANNER_CONNECTING,
        LinkState.HELLO_CONNECTING,
        LinkState.AUTH_CONNECTING,
        LinkState.AUTH_CONNECTING_SIGN,
        LinkState.BANNER_ACCEPTING,
        LinkState.HELLO_ACCEPTING,
        LinkState.AUTH_ACCEPTING,
        LinkState.AUTH_ACCEPTING_MORE,
        LinkState.AUTH_ACCEPTING_SIGN,
    }
)
"""The peer has not proven who it is: the small limits of Config apply."""
