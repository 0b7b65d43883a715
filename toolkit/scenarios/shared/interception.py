"""Cases for points of the interception grid, and the expected result of a flow that was stopped at one."""

from collections.abc import Iterable, Mapping
from typing import Any

from messenger.interception import Action
from messenger.outputs import EventKind
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS
from toolkit.scenarios.shared.flows import (
    Flow,
    Stop,
    session_reset,
    smooth,
)

Cases = Mapping[str, Mapping[str, Any]]
ACTIONS = (Action.FAULT, Action.BLOCK, Action.STALL)


def cases(
    points: Mapping[str, tuple[str, ...]], flow: Flow = smooth, actions: Iterable[Action] = ACTIONS
) -> Cases:
    """One stop for each of these points, at each of its nodes, with each of the actions."""
    return {
        f"{node} {point} {action}": {"stop": Stop(node, point, action.value), "flow": flow}
        for point, nodes in points.items()
        for node in nodes
        for action in actions
    }


def frame_points(tag: str, writer: str) -> dict[str, tuple[str, ...]]:
    """The two points of a frame, at its writer and at its reader."""
    return {f"{tag} WRITE": (writer,), f"{tag} READ": ("b" if writer == "a" else "a",)}


def held_and_open(lab: Lab, pair_name: str, stop: Stop, flow: Flow) -> None:
    """Play a flow with a stop in it, and require that the session behaves as its policy defines."""
    pair = PAIRS[pair_name]
    flow(lab, pair, stop)
    lab.expect_hit(stop.node, stop.point)
    if pair.lossless:
        judge_lossless(lab, resets=flow is session_reset)
    else:
        judge_lossy(lab, stop)


def sent(lab: Lab, node: str) -> int:
    """Number of messages that a node's application has sent."""
    return len(lab.records(node, "send"))


def judge_lossless(lab: Lab, *, resets: bool) -> None:
    """Require that every message arrives once, without a reset event unless a side marked the session down."""
    if resets:
        for event, count in (("reset", 0), ("remote_reset", 1)):
            seen = lab.events("a", "b", EventKind(event))
            lab.require(seen == count, f"{count} {event} events were to come to a, {seen} came")
        lab.exchange(count=2)
        lab.settle()
        return
    lab.exchange(count=2)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_delivered(peer, node, sent(lab, peer))
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle()
    for node, peer in ("a", "b"), ("b", "a"):
        held = lab.snapshot(node)
        lab.require(
            (held["registry"], held["links"]) == (1, 1), f"{node} must have one session and link, has {held}"
        )
        lab.require(lab.delivered(peer, node) == sent(lab, peer), f"{node} got messages twice")


def judge_lossy(lab: Lab, stop: Stop) -> None:
    """Require that a blocked link ends no session, and a broken one only the session on it, once."""
    resets = [len(lab.records(node, "event", event="reset")) for node in ("a", "b")]
    cut = 1  # the reset by the flow's own cut
    if stop.action == Action.BLOCK:
        lab.require(resets == [cut, cut], f"blocking must end no session; resets of a and b: {resets}")
    else:
        lab.require(all(count <= cut + 1 for count in resets), f"one session was broken, but resets are {resets}")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.settle()
