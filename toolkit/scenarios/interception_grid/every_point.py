"""GRID: every point of the interception grid, with every action."""

from collections.abc import Mapping

from messenger.interception import Action, Custom
from messenger.v1.wire import Close
from toolkit.lab.lab import Lab
from toolkit.lab.ways import V1_WAYS
from toolkit.scenarios.interception_grid import GRID
from toolkit.scenarios.shared.flows import REST_S, Flow, Stop, old_keepalives
from toolkit.scenarios.shared.interception import (
    cases,
    frame_points,
    held_and_open,
)

# Nodes that pass a point: the connector a, the acceptor b, or both.
_BOTH = ("a", "b")
_CUSTOM: Mapping[str, tuple[str, ...]] = {
    Custom.SOCKET_CONNECTING: ("a",),
    Custom.BANNER_WRITE: _BOTH,
    Custom.BANNER_READ: _BOTH,
}
_HANDSHAKE = {
    **_CUSTOM,
    Custom.BANNER_PAYLOAD_READ: _BOTH,
    **dict.fromkeys(("HELLO WRITE", "HELLO READ", "AUTH_SIGNATURE WRITE", "AUTH_SIGNATURE READ"), _BOTH),
    **dict.fromkeys(("AUTH_REQUEST WRITE", "AUTH_DONE READ", "CLIENT_IDENT WRITE", "SERVER_IDENT READ"), ("a",)),
    **dict.fromkeys(("AUTH_REQUEST READ", "AUTH_DONE WRITE", "CLIENT_IDENT READ", "SERVER_IDENT WRITE"), ("b",)),
}
_RECONNECTION: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("SESSION_RECONNECT WRITE", "SESSION_RECONNECT_OK READ"), ("a",)),
    **dict.fromkeys(("SESSION_RECONNECT READ", "SESSION_RECONNECT_OK WRITE"), ("b",)),
}
_SMALL = ("ACK", "KEEPALIVE2", "KEEPALIVE2_ACK")
_DATA = {f"{tag} {way}": _BOTH for tag in ("MESSAGE", *_SMALL) for way in ("WRITE", "READ")}
_V1_HANDSHAKE = {
    **_CUSTOM,
    **dict.fromkeys(("IDENTIFY WRITE", "IDENTIFY READ", "SEQ WRITE", "SEQ READ"), _BOTH),
    **dict.fromkeys(("CONNECT WRITE", "CONNECT_REPLY READ"), ("a",)),
    **dict.fromkeys(("CONNECT READ", "CONNECT_REPLY WRITE"), ("b",)),
}
_V1_DATA = {f"{tag} {way}": _BOTH for tag in ("MSG", *_SMALL) for way in ("WRITE", "READ")}
_V1_OTHER = cases(frame_points("KEEPALIVE", "a"), old_keepalives)
_FIRST = cases(_HANDSHAKE)
_V1_FIRST = cases(_V1_HANDSHAKE)
_LATER = cases({**_RECONNECTION, **_DATA})
_V1_LATER = {**cases(_V1_DATA), **_V1_OTHER}


@GRID.scenario("GRID-01", "peers_shaking_hands", priority=2, cases=_FIRST, v1_cases=_V1_FIRST, quick=False)
def peers_shaking_hands(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between peers, a handshake can be stopped at every point on either side, and nothing is lost.

    The stop comes as the point is passed for the first time, while the session opens. Then messages and keepalives
    go both ways, the link is cut, the session is resumed, and more messages are sent. Every message arrives once.
    """
    held_and_open(lab, "peers", stop, flow)


@GRID.scenario("GRID-02", "peers_talking", priority=2, cases=_LATER, v1_cases=_V1_LATER, quick=False)
def peers_talking(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between peers, an open session and its reconnection can be stopped at every point on either side.

    As GRID-01, at the points of messages, acks, keepalives, their answers, and of frames that resume a session.
    """
    held_and_open(lab, "peers", stop, flow)


@GRID.scenario("GRID-03", "client_shaking_hands", priority=2, cases=_FIRST, v1_cases=_V1_FIRST, quick=False)
def client_shaking_hands(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between a lossless client and a stateful server, a handshake can be stopped at every point.

    As GRID-01; every message arrives once.
    """
    held_and_open(lab, "client", stop, flow)


@GRID.scenario("GRID-04", "client_talking", priority=2, cases=_LATER, v1_cases=_V1_LATER, quick=False)
def client_talking(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between a lossless client and a stateful server, an open session can be stopped at every point.

    As GRID-02; every message arrives once.
    """
    held_and_open(lab, "client", stop, flow)


def _unacknowledged(points: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The points without those of acks, which lossy sessions do not send."""
    return {point: nodes for point, nodes in points.items() if not point.startswith("ACK")}


@GRID.scenario(
    "GRID-05",
    "lossy_client",
    priority=2,
    cases=cases({**_HANDSHAKE, **_unacknowledged(_DATA)}),
    v1_cases=cases({**_V1_HANDSHAKE, **_unacknowledged(_V1_DATA)}),
    quick=False,
)
def lossy_client(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between a lossy client and a stateless server, a stop ends one session at most.

    A link that is blocked for a while ends no session; one that breaks ends the session that it carried, with one
    reset event, and the application opens another one. At every point of handshake and data phase.
    """
    held_and_open(lab, "lossy", stop, flow)


@GRID.scenario(
    "GRID-06", "closing_v1", priority=2, cases=cases({"CLOSE READ": ("a",)}, actions=Action), ways=V1_WAYS
)
def closing_v1(lab: Lab, stop: Stop, flow: Flow) -> None:  # noqa: ARG001 - there is only one
    """TAG_CLOSE of a peer ends the session once it is read.

    A raw peer sends it on an open link, which a messenger of this project never does. The session ends with a
    reset event; if the link breaks before CLOSE is handled, that is a fault like any other, and the session goes
    on.
    """
    peer = lab.raw("b", "osd.2")
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    lab.dial("a", "b")
    link = peer.accept("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
    stop.arm(lab)
    link.send(Close())
    lab.expect_hit("a", "CLOSE READ")
    lab.wait(REST_S)
    lab.unblock("a")
    if stop.action == Action.FAULT:
        lab.expect_state("a", "b", "STANDBY")
        lab.expect_no_event("a", "b", "reset")
    else:
        lab.expect_event("a", "b", "reset")
