"""The frames that a target accepts in each state; any other closes the link (docs/protocol.md §4.1, §4.11)."""

from collections.abc import Callable

from messenger.v2.wire import AuthReplyMore, AuthSignature, Hello, Tag
from toolkit.conformance.attempt import COMPRESSING, Attempt
from toolkit.conformance.case import CLOSED, Area, Need
from toolkit.conformance.peers import V2Peer
from toolkit.lab.raw_places import ACCEPTOR, V2_PLACES, v2_samples

_TAKEN = {place.state: place.takes for place in V2_PLACES if place.role == ACCEPTOR}
"""Tags of the frames that an acceptor accepts in each state."""


def _hello_due(attempt: Attempt) -> V2Peer:
    peer = attempt.dial()
    peer.banner()
    peer.expect(Hello)
    return peer


def _auth_more_due(attempt: Attempt) -> V2Peer:
    peer = attempt.greeted()
    peer.auth_request()
    peer.expect(AuthReplyMore)
    return peer


def _signature_due(attempt: Attempt) -> V2Peer:
    peer = attempt.proven()
    peer.expect(AuthSignature)
    return peer


def _compression_due(attempt: Attempt) -> V2Peer:
    peer = attempt.proven(features=COMPRESSING)
    peer.signature()
    return peer


def _register(area: str, where: str, state: str, reach: Callable[[Attempt], V2Peer], *needs: Need) -> None:
    """Add a case for each frame that is not accepted in a state."""
    order = Area(f"v2/order/{area}", "4.1", *needs)
    for tag in Tag:
        if tag not in _TAKEN[state]:
            order.case(f"{tag.name} {where}: the link is closed", CLOSED)(_case(reach, tag))


def _case(reach: Callable[[Attempt], V2Peer], tag: Tag) -> Callable[[Attempt], str]:
    def run(attempt: Attempt) -> str:
        peer = reach(attempt)
        if tag is Tag.MESSAGE:
            peer.send_messages(1)
        else:
            peer.send(v2_samples(peer)[tag])
        return _end(peer)

    return run


def _end(peer: V2Peer) -> str:
    """Return the end of the link as an outcome; skip messages that the target sends before it."""
    answer = peer.outcome()
    while answer.startswith("MESSAGE "):
        answer = peer.outcome()
    return answer


_register("hello", "instead of HELLO", "HELLO_ACCEPTING", _hello_due)
_register("auth", "instead of AUTH_REQUEST", "AUTH_ACCEPTING", Attempt.greeted)
_register("auth-more", "instead of AUTH_REQUEST_MORE", "AUTH_ACCEPTING_MORE", _auth_more_due, Need.CEPHX)
_register("signature", "instead of AUTH_SIGNATURE", "AUTH_ACCEPTING_SIGN", _signature_due, Need.LOGIN)
_register(
    "compression",
    "instead of COMPRESSION_REQUEST",
    "COMPRESSION_ACCEPTING",
    _compression_due,
    Need.LOGIN,
    Need.COMPRESSION,
)
_register(
    "session",
    "instead of CLIENT_IDENT or SESSION_RECONNECT",
    "SESSION_ACCEPTING",
    Attempt.admitted,
    Need.LOGIN,
)
_register("ready", "on an open session", "READY", Attempt.open, Need.SESSION)
