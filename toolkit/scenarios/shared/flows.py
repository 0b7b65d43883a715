"""Flows in which every frame of both protocols is sent, so that interceptors can stop each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2, Feature
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import Pair

REST_S = 0.1
"""Seconds in which everything happens that is not blocked; then the blocked links are released."""
_RETRY_S = 1.0
"""Seconds in which a dial is repeated, twice if necessary."""
_SHORT_RETRY_S = 0.2
"""The same in real time, with short pauses between dials."""


def options(lab: Lab) -> dict[str, Any]:
    """Config options of both nodes: short pauses between dials in real time."""
    return {"ms_initial_backoff": 0.02, "ms_max_backoff": 0.1} if lab.real_time else {}


@dataclass(frozen=True, slots=True)
class Stop:
    """The action at a point of a node in a flow."""

    node: str
    point: str
    action: str

    def arm(self, lab: Lab) -> None:
        """Take the action at the next pass of the point."""
        lab.arm(self.node, self.point, self.action)

    def rest(self, lab: Lab) -> None:
        """Wait for everything that is not blocked, then release the blocked links, and wait for retries."""
        lab.wait(REST_S)
        for node in "a", "b":
            lab.unblock(node)
        if lab.hits(self.node, self.point):
            lab.wait(_SHORT_RETRY_S if lab.real_time else _RETRY_S)


Flow = Callable[[Lab, Pair, Stop], None]
"""Plays a flow with a stop in it, and leaves a session that is open, or opens when it is used."""


def smooth(lab: Lab, pair: Pair, stop: Stop) -> None:
    """Dial, messages and keepalives both ways, a cut, a reconnection."""
    pair.start(lab, **options(lab))
    stop.arm(lab)
    lab.dial("a", "b")
    lab.send("a", "b", count=2)
    stop.rest(lab)
    for node, peer in ("a", "b"), ("b", "a"):
        for send in (lab.send, lab.keepalive):
            if not pair.lossless:
                _dial_again(lab)
            send(node, peer)
            stop.rest(lab)
    lab.cut("a", "b")
    if not pair.lossless:
        lab.wait(REST_S)
        _dial_again(lab)
    lab.send("a", "b")
    stop.rest(lab)
    if pair.lossless:
        lab.send("b", "a")
        stop.rest(lab)


def _dial_again(lab: Lab) -> None:
    """Open another session, in case a lossy one has ended."""
    lab.connect("a", "b")
    lab.wait_for(lambda: lab.session_state("b", "a") == "READY", "b has accepted a")


def bad_method(lab: Lab, pair: Pair, stop: Stop) -> None:
    """The client offers a method that the server does not allow, then another one on the same link."""
    both = options(lab)
    lab.node("a", pair.entity_a, pair.policy_a, listens=pair.both_dial, auth={"offers": ["none", "cephx"]}, **both)
    lab.node("b", pair.entity_b, pair.policy_b, **both)
    lab.start("a", "b")
    stop.arm(lab)
    lab.dial("a", "b")
    lab.send("a", "b")
    stop.rest(lab)


def missing_features(lab: Lab, pair: Pair, stop: Stop) -> None:
    """The client lacks a feature that the server requires, until it is configured."""
    lab.node(
        "a",
        pair.entity_a,
        pair.policy_a,
        listens=pair.both_dial,
        features_supported=CLIENT_FEATURES & ~MSG_ADDR2,
        **options(lab),
    )
    lab.node("b", pair.entity_b, pair.policy_b, **options(lab))
    lab.start("a", "b")
    stop.arm(lab)
    lab.dial("a", "b")
    lab.send("a", "b")
    lab.expect_hit(stop.node, stop.point)
    stop.rest(lab)
    lab.expect_event("a", "b", "refused")
    lab.configure("a", features_supported=CLIENT_FEATURES)


def session_reset(lab: Lab, pair: Pair, stop: Stop) -> None:
    """The server marks the session down, and the client tries to resume it."""
    pair.start(lab, **options(lab))
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.settle()
    stop.arm(lab)
    lab.mark_down("b", "a")
    lab.send("a", "b")
    lab.expect_hit(stop.node, stop.point)
    stop.rest(lab)
    lab.expect_event("a", "b", "remote_reset")


def session_retry(lab: Lab, pair: Pair, stop: Stop) -> None:
    """One side fails to reconnect twice; the other dials with a connect_seq that is lower by then."""
    pair.start(lab, **options(lab))
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.settle()
    lab.arm("a", "SESSION_RECONNECT WRITE")
    lab.arm("a", "SESSION_RECONNECT WRITE", nth=2)
    lab.arm("a", "MESSAGE WRITE")
    stop.arm(lab)
    lab.send("a", "b")
    lab.expect_hit("a", "SESSION_RECONNECT WRITE", 2)
    lab.send("b", "a")
    lab.expect_hit(stop.node, stop.point)
    stop.rest(lab)


def retry_global(lab: Lab, pair: Pair, stop: Stop) -> None:
    """A takeover is held behind its answer; the connector, whose link has broken, dials again meanwhile."""
    pair.start(lab, **options(lab))
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.settle()
    lab.arm("b", "SESSION_RECONNECT_OK WRITE", "STALL")
    stop.arm(lab)
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.expect_hit("b", "SESSION_RECONNECT_OK WRITE")
    lab.expect_hit(stop.node, stop.point)
    stop.rest(lab)


def lost_race(lab: Lab, pair: Pair, stop: Stop) -> None:
    """Both dial, and the one with the higher address gets WAIT for the other's dial, which is blocked."""
    pair.start(lab, **options(lab))
    lab.arm("a", "CLIENT_IDENT WRITE", "BLOCK")
    stop.arm(lab)
    lab.dial("a", "b")
    lab.send("a", "b")
    lab.expect_hit("a", "CLIENT_IDENT WRITE")
    lab.dial("b", "a")
    lab.send("b", "a")
    lab.expect_hit(stop.node, stop.point)
    stop.rest(lab)


def old_keepalives(lab: Lab, pair: Pair, stop: Stop) -> None:
    """On v1 without KEEPALIVE2: KEEPALIVE, which gets no answer."""
    pair.start(lab, **options(lab), features_supported=CLIENT_FEATURES & ~int(Feature.MSGR_KEEPALIVE2))
    stop.arm(lab)
    lab.connect("a", "b")
    for node, peer in ("a", "b"), ("b", "a"):
        lab.keepalive(node, peer)
        stop.rest(lab)
        lab.send("a", "b")
        stop.rest(lab)
