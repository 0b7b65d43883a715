"""LS: sessions in STANDBY, and what wakes or replaces them."""

from itertools import permutations
from typing import Any

from messenger.interception import BLOCK_LIMIT_S, Action
from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_server import LS

_DAY_S = 86_400.0


def _client_and_server(lab: Lab, **options: Any) -> None:  # noqa: ANN401 - Config options
    lab.two("lossless_client", "stateful_server", "client.1", **options)


def _idle_link_dies(lab: Lab) -> None:
    """Wait until everything is acknowledged, then cut the link."""
    lab.expect_acked("a")
    lab.expect_acked("b")
    lab.cut("a", "b")


@LS.scenario("LS-03", "server_queue_in_standby")
def server_queue_in_standby(lab: Lab) -> None:
    """A server keeps its replies for a client that is away, and never dials it.

    The link breaks while replies are queued, and the client's dials are refused for 30 s. The server stays in
    STANDBY; once the client gets through, its session resumes and every reply arrives, in order.
    """
    away_s = 1.0 if lab.real_time else 30.0
    _client_and_server(lab, **({"ms_max_backoff": 0.3} if lab.real_time else {}))
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("b")
    message_out = lab.point("MESSAGE", "WRITE")
    lab.arm("b", message_out)
    lab.refuse("a", "b")
    lab.send("b", "a", count=3)
    lab.expect_hit("b", message_out)
    lab.expect_state("b", "a", "STANDBY")
    lab.send("b", "a", count=2)
    lab.wait(away_s)
    lab.require(lab.session_state("b", "a") == "STANDBY", "the server must still wait for its client")
    lab.require(lab.snapshot("b")["queued"] == 5, "the server must keep every reply")
    lab.refuse("a", "b", refused=False)
    lab.expect_delivered("b", "a", 7)
    lab.exchange(count=2)
    lab.require(lab.dials("b") == 0, "a server must never dial")
    lab.expect_events("b", "a", accept=2)
    for event in "reset", "remote_reset":
        lab.expect_no_event("a", "b", event)
    lab.settle()


@LS.scenario("LS-12", "standby_backoff", priority=2)
def standby_backoff(lab: Lab) -> None:
    """The pauses between dials start again after a session was open, also after STANDBY.

    A peer's dials are refused four times, and its pauses double. Then a dial succeeds, every message is
    acknowledged, the link breaks, and both sides go to STANDBY. When its dials are refused again, the first pause
    is ms_initial_backoff.
    """
    lab.two("lossless_peer")
    pauses = (0.2, 0.4, 0.8)
    for turn in range(2):
        first = len(lab.dial_pauses_s("a")) + turn
        lab.refuse("a", "b")
        lab.send("a", "b")
        lab.wait_for_dials("a", first + len(pauses) + 1)
        lab.expect_backoff("a", len(pauses), first=first)
        lab.refuse("a", "b", refused=False)
        lab.expect_delivered("a", "b", turn + 1)
        _idle_link_dies(lab)
        lab.expect_state("a", "b", "STANDBY")
        lab.expect_state("b", "a", "STANDBY")


@LS.scenario(
    "LS-05",
    "standby_wake_by_keepalive",
    rules=("standby_keepalive",),
    cases={
        "connector": {"node": "a"},
        "acceptor": {"node": "b"},
        "server": {"node": "b", "server": True},
        "due at the fault": {"node": "a", "due": True},
        "as classic does": {"node": "a", "rule": "stay"},
    },
)
def standby_wake_by_keepalive(
    lab: Lab,
    node: str,
    server: bool = False,  # noqa: FBT001, FBT002 - a case
    due: bool = False,  # noqa: FBT001, FBT002 - as above
    rule: str = "wake",
) -> None:
    """A keepalive wakes a session in STANDBY, on either side and either protocol, unless only the peer dials.

    Both sides of a session are in STANDBY, and one application sends a keepalive: its session dials, gets the
    answer, and is the same session. A server's keepalive waits for the client's dial. A session whose link broke
    before a keepalive was written does not go to STANDBY. If ``standby_keepalive`` is stay, as in AsyncMessenger,
    the keepalive waits until a message wakes the session.
    """
    if server:
        lab.two("lossless_peer", "stateful_server")
    else:
        lab.two("lossless_peer", standby_keepalive=rule)
    peer = "b" if node == "a" else "a"
    lab.connect("a", "b")
    lab.exchange(count=1)
    if due:
        lab.expect_acked("a")
        lab.expect_acked("b")
        lab.arm("a", "KEEPALIVE2 WRITE")
        lab.keepalive("a", "b")
        lab.expect_hit("a", "KEEPALIVE2 WRITE")
    else:
        _idle_link_dies(lab)
        lab.expect_state("a", "b", "STANDBY")
        lab.expect_state("b", "a", "STANDBY")
        lab.keepalive(node, peer)
    if server or rule == "stay":
        lab.expect_no_dial(1.0, "a", "b")
        lab.require(lab.session_state(node, peer) == "STANDBY", f"{node} must stay in STANDBY")
        lab.send("a", "b")
    lab.expect_state(node, peer, "READY")
    lab.wait_until(lambda: lab.session(node, peer)["keepalive_acked_s"] > 0, f"{node}'s keepalive answered")
    if due:
        lab.require(not lab.was_in_state("a", "STANDBY"), "with a keepalive to send a must not wait in STANDBY")
    lab.expect_no_event(peer, node, "remote_reset")
    lab.exchange(count=1)
    lab.settle()


@LS.scenario("LS-06", "standby_idle_forever", priority=2, backends=("sim",), only="a day passes in it")
def standby_idle_forever(lab: Lab) -> None:
    """An idle session in STANDBY needs no links, timers or records.

    Neither side sends for a day: there are no links and no timers, and the history gets no record. mark_down frees
    the sessions.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.exchange(count=2)
    _idle_link_dies(lab)
    lab.expect_state("a", "b", "STANDBY")
    lab.expect_state("b", "a", "STANDBY")
    lab.wait(1.0)
    for name in "ab":
        held = lab.holdings(name)
        wanted = {"links": 0, "held_bytes": 0, "unwritten_bytes": 0, "timers": 0, "sessions": 1}
        lab.require({key: held[key] for key in wanted} == wanted, f"{name} holds {held}")
    before = len(lab.history)
    lab.wait(_DAY_S)
    lab.require(len(lab.history) == before + 1, "nothing may happen in STANDBY")
    lab.settle()
    for name, peer in ("a", "b"), ("b", "a"):
        lab.mark_down(name, peer)
        lab.require(not any(lab.snapshot(name).values()), f"{name} still holds {lab.snapshot(name)}")
    lab.settle()


@LS.scenario("LS-08", "half_open_reconnect", cases={"idle": {"unread": 0}, "unread data": {"unread": 5}})
def half_open_reconnect(lab: Lab, unread: int) -> None:
    """A returning client replaces the socket that its server still holds open.

    The client has lost its socket, which the server has not noticed, and dials again. Bytes of the old socket that
    the server has not read are dropped, and their messages are replayed on the new link.
    """
    _client_and_server(lab)
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("a")
    lab.expect_acked("b")
    message_in = lab.point("MESSAGE", "READ")
    if unread:
        lab.arm("b", message_in, Action.BLOCK)
        lab.send("a", "b", count=unread)
        lab.expect_hit("b", message_in)
        lab.wait(0.1)
    lab.half_open("b", "a")
    lab.expect_event("a", "b", "connect", 2)
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 2 + unread + 1)
    lab.exchange(count=2)
    lab.expect_events("b", "a", accept=2)
    lab.expect_events("a", "b", connect=2)
    verdict = lab.records("b", "decision")[-1]["verdict"] if not lab.is_v1 else "REPLACE"
    lab.require(verdict in {"REUSE", "REPLACE"}, f"the old socket must be replaced at once, decided was {verdict}")
    lab.require(lab.dials("a") == 2, f"one dial must be enough, a dialled {lab.dials('a')} times")
    closed = [record["detail"] for record in lab.records("b", "link", action="close")]
    lab.require(len(closed) == 1 and "replaced" in closed[0], f"the old link must have been replaced: {closed}")
    lab.settle()


@LS.scenario(
    "LS-09",
    "reconnect_during_replacement",
    cases={"reconnect": {"point": "SESSION_RECONNECT_OK WRITE"}, "ident": {"point": "SERVER_IDENT WRITE"}},
)
def reconnect_during_replacement(lab: Lab, point: str) -> None:
    """A second incoming connection waits while a session is being replaced.

    A server is blocked in the middle of a takeover by its client, the new link breaks unnoticed, and the client
    dials again: it gets RETRY_GLOBAL, or WAIT if it asks for a new session. Once the server goes on it notices
    that the link is dead, and the client's next dial gets the session.
    """
    ident = point.startswith("SERVER_IDENT")
    _client_and_server(lab, **({"ms_max_backoff": 0.5} if lab.real_time else {}))
    if lab.is_v1:
        # The reply that follows a takeover, which the connector answers by its second CONNECT.
        point = "CONNECT_REPLY WRITE"
    if ident and not lab.is_v1:
        lab.arm("a", "SERVER_IDENT READ")
        lab.arm("b", point, Action.BLOCK, nth=2)
        lab.dial("a", "b")
    else:
        lab.connect("a", "b")
        lab.exchange(count=2)
        lab.expect_acked("a")
        lab.arm("b", point, Action.BLOCK, nth=2 if lab.is_v1 else 1)
        lab.cut("a", "b")
    before = lab.delivered("a", "b")
    lab.send("a", "b", count=3)
    lab.expect_hit("b", point)
    decided = len(lab.records("b", "decision"))
    lab.cut("a", "b")
    lab.wait_until(lambda: len(lab.records("b", "decision")) > decided, "another attempt at b")
    verdicts = {record["verdict"] for record in lab.records("b", "decision")[decided:]}
    wanted = "WAIT" if ident and not lab.is_v1 else "RETRY_GLOBAL"
    lab.require(verdicts == {wanted}, f"another attempt must get {wanted}, it got {verdicts}")
    lab.unblock("b", point)
    lab.expect_delivered("a", "b", before + 3)
    lab.exchange(count=2)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.expect_no_event("b", "a", "remote_reset")
    lab.settle()


@LS.scenario("LS-10", "queue_growth_client_dead", priority=2)
def queue_growth_client_dead(lab: Lab) -> None:
    """The queue for an absent client shows in the counters, and mark_down drops it.

    A server keeps sending to a client whose process was killed. Each message adds one to its queue and to the
    counter; the server does not dial. mark_down drops the whole queue.
    """
    count = 1000
    _client_and_server(lab)
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.kill("a")
    lab.expect_state("b", "a", "STANDBY")
    for sent in range(count // 4, count + 1, count // 4):
        lab.send("b", "a", count=count // 4, size_bytes=10)
        lab.expect("b", "queued", sent)
    lab.expect_no_dial(1.0, "b")
    lab.mark_down("b", "a")
    lab.require(not any(lab.snapshot("b").values()), f"nothing may be left: {lab.snapshot('b')}")
    lab.settle()


@LS.scenario(
    "LS-11",
    "send_races_with_fault",
    cases={
        f"{name} {''.join(word[0] for word in order)}": {"point": points, "order": order, "replaces": replaces}
        for name, points, replaces in (
            ("half-accepted", ("SERVER_IDENT WRITE", "SEQ WRITE"), False),
            ("replacing", ("SESSION_RECONNECT_OK WRITE", "CONNECT_REPLY WRITE"), True),
        )
        for order in (*permutations(("send", "cut", "go on")), ("send",), ("send", "cut"))
    },
    sim_cases={
        f"{name} {order}": "the point is held for ten seconds"
        for name in ("half-accepted", "replacing")
        for order in ("s", "sc")
    },
)
def send_races_with_fault(lab: Lab, point: tuple[str, str], order: tuple[str, ...], replaces: bool) -> None:  # noqa: FBT001 - a case
    """A message sent while its session is accepted or replaced survives the fault of the link, in any order.

    The acceptor is blocked before it writes its answer. Its application sends, the link breaks, and the acceptor
    is released, in every order of the three, or it is never released, so that the link times out. Every message
    arrives once.
    """
    at = point[lab.is_v1]
    lab.two("lossless_peer")
    if replaces:
        lab.connect("a", "b")
        lab.exchange(count=1)
        lab.expect_acked("a")
        lab.expect_acked("b")
        lab.arm("b", at, Action.BLOCK, nth=2 if lab.is_v1 else 1)
        lab.cut("a", "b")
        lab.send("a", "b")
    else:
        lab.arm("b", at, Action.BLOCK)
        lab.dial("a", "b")
        lab.send("a", "b")
    lab.expect_hit("b", at)
    for step in order:
        if step == "send":
            lab.send("b", "a", count=2)
        elif step == "cut":
            lab.cut("a", "b")
        else:
            lab.unblock("b", at)
    if "go on" not in order:
        lab.wait(BLOCK_LIMIT_S + 0.1)
    lab.expect_delivered("b", "a", 2 + replaces)
    lab.expect_delivered("a", "b", 1 + replaces)
    lab.exchange(count=1)
    for name, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(name, peer, "reset")
        lab.expect_no_event(name, peer, "remote_reset")
    lab.settle()
