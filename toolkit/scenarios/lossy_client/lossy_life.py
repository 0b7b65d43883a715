"""LY: what ends a lossy session, and that it leaves nothing behind."""

from messenger.interception import Action
from toolkit.lab.lab import Lab
from toolkit.scenarios.lossy_client import LY

_EARLY = {
    # name: point on v2, point on v1 and which pass of it
    "connect": ("SOCKET_CONNECTING", "SOCKET_CONNECTING", 1),
    "banner out": ("BANNER_WRITE", "BANNER_WRITE", 1),
    "banner in": ("BANNER_READ", "BANNER_READ", 1),
    "payload in": ("BANNER_PAYLOAD_READ", "IDENTIFY READ", 1),
    "hello out": ("HELLO WRITE", "IDENTIFY WRITE", 1),
    "hello in": ("HELLO READ", "CONNECT WRITE", 1),
    "auth out": ("AUTH_REQUEST WRITE", "CONNECT WRITE", 2),
    "auth in": ("AUTH_DONE READ", "CONNECT_REPLY READ", 1),
    "signature out": ("AUTH_SIGNATURE WRITE", "CONNECT_REPLY READ", 2),
    "signature in": ("AUTH_SIGNATURE READ", "SEQ READ", 1),
}
_V1_TRIES_AGAIN = {"SOCKET_CONNECTING", "BANNER_WRITE"}
"""Points at which a lossy client on v1 dials again: until it has sent its banner (docs/protocol.md §3.9)."""


def _lossy(lab: Lab, server: str = "stateless_server") -> None:
    lab.two("lossy_client", server, "client.1")


def _ends_in_a_reset(lab: Lab, **counts: int) -> None:
    """Require that a's session has ended with one reset event, and that neither side dials any more."""
    lab.expect_event("a", "b", "reset")
    lab.expect_no_dial(0.3 if lab.real_time else 2.0, "a", "b")

    lab.expect_events("a", "b", reset=1, **counts)
    lab.require(lab.dials("a") == 1, f"a lossy session dials once, a has dialled {lab.dials('a')} times")
    for name in "ab":
        lab.expect(name, "registry", 0)
    lab.settle()


@LY.scenario(
    "LY-05",
    "queue_survives_only_before_ready",
    cases={
        **{name: {"early": early} for name, early in _EARLY.items()},
        "message out": {"late": "WRITE"},
        "message in": {"late": "READ"},
        "cut": {"late": "cut"},
    },
)
def queue_survives_only_before_ready(lab: Lab, early: tuple[str, str, int] = ("", "", 0), late: str = "") -> None:
    """A lossy client keeps its queue until the session opens, and loses it at a later fault.

    A fault in the handshake raises no event: the client dials again and the message arrives. The same fault once
    the session is open ends it: one reset event, no further dial, and queued messages are dropped. On v1 the
    session ends like that as soon as the client has sent its banner.
    """
    _lossy(lab)
    if late:
        _fault_when_open(lab, late)
        return
    point, nth = (early[1], early[2]) if lab.is_v1 else (early[0], 1)
    lab.arm("a", point, nth=nth)
    lab.dial("a", "b")
    lab.send("a", "b")
    lab.expect_hit("a", point)
    if lab.is_v1 and point not in _V1_TRIES_AGAIN:
        _ends_in_a_reset(lab)
        lab.require(not lab.delivered("a", "b"), "what was queued when the session ended must be dropped")
        return
    lab.expect_delivered("a", "b", 1)
    lab.expect_events("a", "b", connect=1)
    lab.require(lab.dials("a") == 2, f"one fault costs one more dial, a has dialled {lab.dials('a')} times")
    lab.settle()


def _fault_when_open(lab: Lab, late: str) -> None:
    lab.connect("a", "b")
    lab.exchange(count=2)
    if late == "cut":
        lab.cut("a", "b")
    else:
        lab.arm("a", lab.point("MESSAGE", late))
        lab.send(*("a", "b") if late == "WRITE" else ("b", "a"), count=3)
    _ends_in_a_reset(lab, connect=1)
    lab.expect_events("b", "a", accept=1, reset=1)
    if late != "READ":
        lab.require(lab.delivered("a", "b") == 2, "what was queued at a when the session ended must be dropped")


@LY.scenario("LY-06", "anonymous_clients")
def anonymous_clients(lab: Lab) -> None:
    """Two anonymous connections to one server are independent sessions.

    A client opens two anonymous connections to the same server. Neither is registered under the server's address:
    a third, ordinary connection opens a session of its own. When one of them is marked down, the others go on.
    """
    _lossy(lab)
    for alias in "first", "second":
        lab.dial("a", "b", anonymous=True, alias=alias)
        lab.send("a", alias, count=2)
    lab.expect_delivered("a", "b", 4)
    lab.require(lab.snapshot("a")["registry"] == 0, "an anonymous session must not be registered")
    lab.dial("a", "b")
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 6)
    ids = [lab.session("a", peer)["id"] for peer in ("first", "second", "b")]
    lab.require(len(set(ids)) == 3, f"three sessions are wanted, these are {ids}")
    lab.mark_down("a", "first")
    lab.expect_event("b", "a", "reset")
    lab.send("a", "second", count=2)
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 10)
    lab.expect_events("a", "b", connect=3)
    lab.expect_events("b", "a", accept=3, reset=1)
    lab.require(lab.dials("a") == 3, f"nobody else had a reason to dial, but a dialled {lab.dials('a')} times")
    lab.settle()


@LY.scenario("LY-07", "registered_lossy_replaces", cases={"alive": {"half": False}, "half-open": {"half": True}})
def registered_lossy_replaces(lab: Lab, half: bool) -> None:  # noqa: FBT001 - a case
    """A server that registers lossy clients replaces the session of one that dials again.

    The client dials from the same address while the server still has its old session: because the client lost its
    socket and the server has not noticed, or because the client dials a second time. The old session ends with a
    reset event, the new one is accepted, and it is the only one registered.
    """
    _lossy(lab, "stateless_registered_server")
    lab.dial("a", "b", anonymous=True)
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 2)
    if half:
        lab.half_open("b", "a")
        lab.expect_event("a", "b", "reset")
        lab.expect_no_event("b", "a", "reset")
    lab.dial("a", "b", anonymous=True)
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 4)
    lab.expect_event("a", "b", "reset")
    lab.expect_events("a", "b", connect=2, reset=1)
    lab.expect_events("b", "a", accept=2, reset=1)
    verdicts = [record["verdict"] for record in lab.records("b", "decision")]
    lab.require(verdicts[-1] == "STOP_EXISTING", f"the old session must be stopped, decided was {verdicts}")
    lab.require(lab.snapshot("b")["registry"] == 1, "only the new session may be registered")
    lab.settle()


@LY.scenario(
    "LY-08", "both_lossy_cross_dial", cases={"heartbeat": {"registers": False}, "registered": {"registers": True}}
)
def both_lossy_cross_dial(lab: Lab, registers: bool) -> None:  # noqa: FBT001 - a case
    """Two lossy peers that dial each other at the same time stop dialling and can exchange messages.

    As heartbeat messengers do, each accepts as a stateless server and dials as a lossy client: two sessions stay
    open side by side. Where both register lossy peers, each dial ends the other side's session with a reset event;
    nobody dials by itself after that, and the application's next dial opens a session that stays.
    """
    policy = "lossy_client" if registers else "stateless_server"
    lab.two(policy, policy, a_listens=True)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.dial(node, peer, policy="lossy_client")
        lab.send(node, peer)
    if not registers:
        for node, peer in ("a", "b"), ("b", "a"):
            lab.expect_delivered(peer, node, 1)
            lab.expect_event(node, peer, "accept")
    lab.wait(1.0)
    lab.expect_no_dial(1.0 if lab.real_time else 60.0, "a", "b")
    lab.require(lab.dials("a") == lab.dials("b") == 1, f"dials: {lab.dials('a')} of a, {lab.dials('b')} of b")
    if registers:
        before = lab.delivered("a", "b")
        lab.send("a", "b", count=2)
        lab.expect_delivered("a", "b", before + 2)
    else:
        for node, peer in ("a", "b"), ("b", "a"):
            lab.expect_events(node, peer, connect=1, accept=1)
    lab.settle()


@LY.scenario("LY-09", "no_state_after_fault", priority=2)
def no_state_after_fault(lab: Lab) -> None:
    """After a fault a lossy client opens a new session with new cookies and counters.

    The link is cut after some messages and the client dials again. The session has new cookies and counters, no
    frame refers to the old session, and messages queued in the old one do not arrive.
    """
    _lossy(lab)
    lab.connect("a", "b")
    lab.exchange(count=3)
    before = lab.session("a", "b")
    lab.arm("a", lab.point("MESSAGE", "WRITE"), Action.FAULT)
    lab.send("a", "b", count=4)
    lab.expect_event("a", "b", "reset")
    lab.connect("a", "b")
    after = lab.session("a", "b")
    lab.require(after["id"] != before["id"], "the session must be another one")
    if not lab.is_v1:
        cookies = {session[name] for session in (before, after) for name in ("client_cookie", "server_cookie")}
        lab.require(cookies == {0}, f"a lossy session has no cookies, these are {cookies}")
        lab.require(not lab.frames("a", "SESSION_RECONNECT"), "a lossy client must not try to reconnect")
    else:
        seqs = {frame["fields"]["connect_seq"] for frame in lab.frames("a", "CONNECT")}
        lab.require(seqs == {0}, f"every CONNECT must have connect_seq 0, seen are {seqs}")
    counters = {name: after[name] for name in ("in_seq", "out_seq", "acked_seq")}
    lab.require(not any(counters.values()), f"counters must begin at 0: {counters}")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 4)
    lab.require(lab.records("b", "deliver")[-1]["seq"] == 1, "the first message of the session must have seq 1")
    lab.expect_events("b", "a", accept=2, reset=1)
    lab.settle()
