"""HS-08 and GRID: every point of the interception grid, with every action."""

from collections.abc import Iterable, Mapping
from typing import Any

from messenger.interception import Action, Custom
from messenger.outputs import EventKind
from messenger.v1.wire import Close
from toolkit.scenarios.families.failover.flows import (
    REST_S,
    Flow,
    Stop,
    bad_method,
    lost_race,
    missing_features,
    old_keepalives,
    retry_global,
    session_reset,
    session_retry,
    smooth,
)
from toolkit.scenarios.families.grid import GRID
from toolkit.scenarios.families.hs import HS
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.verbs.policies import PAIRS
from toolkit.scenarios.ways import V1_WAYS, V2_WAYS

Cases = Mapping[str, Mapping[str, Any]]
_ACTIONS = (Action.FAULT, Action.BLOCK, Action.STALL)

# Who passes a point: the connector a, the acceptor b, or both.
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


def _cases(
    points: Mapping[str, tuple[str, ...]], flow: Flow = smooth, actions: Iterable[Action] = _ACTIONS
) -> Cases:
    return {
        f"{node} {point} {action}": {"stop": Stop(node, point, action.value), "flow": flow}
        for point, nodes in points.items()
        for node in nodes
        for action in actions
    }


def _said(tag: str, writer: str) -> dict[str, tuple[str, ...]]:
    """A frame's two points, at its writer and at its reader."""
    return {f"{tag} WRITE": (writer,), f"{tag} READ": ("b" if writer == "a" else "a",)}


_UNTESTED = {
    **_cases(_said("AUTH_BAD_METHOD", "b"), bad_method),
    **_cases(_said("AUTH_REPLY_MORE", "b") | _said("AUTH_REQUEST_MORE", "a")),
    **_cases(_said("COMPRESSION_REQUEST", "a") | _said("COMPRESSION_DONE", "b")),
    **_cases(_said("IDENT_MISSING_FEATURES", "b"), missing_features),
    **_cases(_said("SESSION_RESET", "b"), session_reset),
    **_cases(_said("SESSION_RETRY", "a"), session_retry),
    **_cases(_said("SESSION_RETRY_GLOBAL", "b"), retry_global),
    **_cases(_said("WAIT", "a"), lost_race),
}
_V1_OTHER = _cases(_said("KEEPALIVE", "a"), old_keepalives)


def _held_and_open(lab: Lab, pair_name: str, stop: Stop, flow: Flow) -> None:
    """Play a flow with a stop in it; in the end the session does what its policy says."""
    pair = PAIRS[pair_name]
    flow(lab, pair, stop)
    lab.expect_hit(stop.node, stop.point)
    if pair.lossless:
        _judge_lossless(lab, resets=flow is session_reset)
    else:
        _judge_lossy(lab, stop)


def _sent(lab: Lab, node: str) -> int:
    return len(lab.records(node, "send"))


def _judge_lossless(lab: Lab, *, resets: bool) -> None:
    """Everything arrives once; nobody is told of a loss, unless there was one: the other side's mark-down."""
    if resets:
        for event, count in (("reset", 0), ("remote_reset", 1)):
            seen = lab.events("a", "b", EventKind(event))
            lab.require(seen == count, f"{count} {event} events were to come to a, {seen} came")
        lab.exchange(count=2)
        lab.settle()
        return
    lab.exchange(count=2)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_delivered(node, peer, _sent(lab, peer))
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle()
    for node, peer in ("a", "b"), ("b", "a"):
        held = lab.snapshot(node)
        lab.require(
            (held["registry"], held["links"]) == (1, 1), f"{node} must have one session and link, has {held}"
        )
        lab.require(lab.delivered(node, peer) == _sent(lab, peer), f"{node} got messages twice")


def _judge_lossy(lab: Lab, stop: Stop) -> None:
    """A link that only stood still ends nothing; one that broke ends at most the session on it, once."""
    resets = [len(lab.records(node, "event", event="reset")) for node in ("a", "b")]
    cut = 1  # the flow's own
    if stop.action == Action.BLOCK:
        lab.require(resets == [cut, cut], f"blocking must end no session; resets of a and b: {resets}")
    else:
        lab.require(all(count <= cut + 1 for count in resets), f"one session was broken, but resets are {resets}")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.settle()


@HS.scenario("HS-08", "fault_at_untested_tags", cases=_UNTESTED, ways=V2_WAYS)
def fault_at_untested_tags(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Refusals, retries, further rounds of authentication and compression can be stopped anywhere.

    Flows that really lead to these frames: a method that is not allowed, a feature that is missing, a session
    that is gone, a connect_seq or a global_seq that is stale, a lost race. Each frame is stopped on either side,
    by a fault, for a while, or by a stream that ends behind it: in the end there is one session, and nothing is
    lost but what a full reset takes.
    """
    _held_and_open(lab, "peers", stop, flow)


_FIRST = _cases(_HANDSHAKE)
_V1_FIRST = _cases(_V1_HANDSHAKE)
_LATER = _cases({**_RECONNECTION, **_DATA})
_V1_LATER = {**_cases(_V1_DATA), **_V1_OTHER}


@GRID.scenario("GRID-01", "peers_shaking_hands", priority=2, cases=_FIRST, v1_cases=_V1_FIRST, quick=False)
def peers_shaking_hands(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between peers, a handshake can be stopped at every point on either side, and nothing is lost.

    The point is passed for the first time: while the two open a session. Then messages and keepalives go both
    ways, the link is cut, the session is resumed, and more messages go. Everything arrives once.
    """
    _held_and_open(lab, "peers", stop, flow)


@GRID.scenario("GRID-02", "peers_talking", priority=2, cases=_LATER, v1_cases=_V1_LATER, quick=False)
def peers_talking(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between peers, an open session and its reconnection can be stopped at every point on either side.

    As GRID-01, at the points of messages, acks, keepalives, their answers, and of frames that resume a session.
    """
    _held_and_open(lab, "peers", stop, flow)


@GRID.scenario("GRID-03", "client_shaking_hands", priority=2, cases=_FIRST, v1_cases=_V1_FIRST, quick=False)
def client_shaking_hands(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between a lossless client and a stateful server, a handshake can be stopped at every point."""
    _held_and_open(lab, "client", stop, flow)


@GRID.scenario("GRID-04", "client_talking", priority=2, cases=_LATER, v1_cases=_V1_LATER, quick=False)
def client_talking(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between a lossless client and a stateful server, an open session can be stopped at every point."""
    _held_and_open(lab, "client", stop, flow)


def _unacknowledged(points: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Without acks, which lossy sessions do not have."""
    return {point: nodes for point, nodes in points.items() if not point.startswith("ACK")}


@GRID.scenario(
    "GRID-05",
    "lossy_client",
    priority=2,
    cases=_cases({**_HANDSHAKE, **_unacknowledged(_DATA)}),
    v1_cases=_cases({**_V1_HANDSHAKE, **_unacknowledged(_V1_DATA)}),
    quick=False,
)
def lossy_client(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Between a lossy client and a stateless server, what is stopped ends one session at most.

    A link that stands still for a while ends none; one that breaks ends the session that it carried, with one
    reset event, and the application opens another one. At every point of handshake and data phase.
    """
    _held_and_open(lab, "lossy", stop, flow)


@GRID.scenario(
    "GRID-06", "closing_v1", priority=2, cases=_cases({"CLOSE READ": ("a",)}, actions=Action), ways=V1_WAYS
)
def closing_v1(lab: Lab, stop: Stop, flow: Flow) -> None:  # noqa: ARG001 - there is only one
    """A peer that says CLOSE ends the session, when its word is heard.

    Nobody here says it; a peer spoken by hand does, on an open link. The session ends with a reset event; if the
    link breaks instead of CLOSE being handed on, it is a fault like any other, and the session dials.
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
