"""LC: how long a lossless client keeps dialling, with which pauses, and what it keeps."""

from itertools import pairwise
from typing import Any

from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_client import LC

_RECONNECT = {
    # name: node, point on v2, point on v1
    "a connecting": ("a", "SOCKET_CONNECTING", "SOCKET_CONNECTING"),
    "a banner out": ("a", "BANNER_WRITE", "BANNER_WRITE"),
    "a banner in": ("a", "BANNER_READ", "BANNER_READ"),
    "a hello out": ("a", "HELLO WRITE", "IDENTIFY WRITE"),
    "a hello in": ("a", "HELLO READ", "IDENTIFY READ"),
    "a auth out": ("a", "AUTH_REQUEST WRITE", "CONNECT WRITE"),
    "a auth in": ("a", "AUTH_DONE READ", "CONNECT_REPLY READ"),
    "b banner out": ("b", "BANNER_WRITE", "BANNER_WRITE"),
    "b hello in": ("b", "HELLO READ", "IDENTIFY READ"),
    "b auth in": ("b", "AUTH_REQUEST READ", "CONNECT READ"),
    "b auth out": ("b", "AUTH_DONE WRITE", "CONNECT_REPLY WRITE"),
    "a reconnect": ("a", "SESSION_RECONNECT WRITE", "SEQ READ"),
    "b reconnect": ("b", "SESSION_RECONNECT READ", "SEQ WRITE"),
    "b ok": ("b", "SESSION_RECONNECT_OK WRITE", "SEQ READ"),
    "a ok": ("a", "SESSION_RECONNECT_OK READ", "SEQ WRITE"),
}


def _client_and_server(lab: Lab, **options: Any) -> None:  # noqa: ANN401 - Config options
    lab.two("lossless_client", "stateful_server", "client.1", **options)


def _connect_seqs(lab: Lab) -> list[int]:
    """The connect_seq at each state of a's session since it was first open, in order."""
    states = lab.records("a", "state")
    first = next(number for number, record in enumerate(states) if record["state"] == "READY")
    return [record["connect_seq"] for record in states[first:]]


@LC.scenario(
    "LC-04",
    "n_faults_in_a_row",
    cases={
        **{f"{name} x3": {"places": [where], "count": 3} for name, where in _RECONNECT.items()},
        **{f"{name} x50": {"places": [_RECONNECT[name]], "count": 50} for name in ("a ok",)},
        "each in turn": {"places": list(_RECONNECT.values()), "count": len(_RECONNECT)},
    },
)
def n_faults_in_a_row(lab: Lab, places: list[tuple[str, str, str]], count: int) -> None:
    """A session resumes after any number of failed reconnections.

    An open session's link breaks, and each of the next attempts breaks at the same point of the handshake, or each
    at another. On v2 connect_seq grows with every attempt, so that a late attempt is not taken for a new one. In
    the end every message has arrived once and in order, without a reset event.
    """
    if lab.real_time:
        count = min(count, 8)
        _client_and_server(lab, ms_initial_backoff=0.01, ms_max_backoff=0.02)
    else:
        _client_and_server(lab)
    lab.connect("a", "b")
    lab.exchange(count=3)
    for turn in range(count):
        node, v2_point, v1_point = places[turn % len(places)]
        # In turn, each point is armed once: an attempt that gets past it is broken at a later one.
        lab.arm(node, v1_point if lab.is_v1 else v2_point, nth=turn + 1 if len(places) == 1 else 1)
    lab.send("a", "b", count=2)
    lab.cut("a", "b")
    lab.send("b", "a", count=2)
    lab.send("a", "b", count=2)
    patience_s = 16.0 * (count + 2)
    lab.expect_delivered("a", "b", 7, within_s=patience_s)
    lab.expect_delivered("b", "a", 5, within_s=patience_s)
    for node, v2_point, v1_point in places[:count]:
        lab.expect_hit(node, v1_point if lab.is_v1 else v2_point)
    # In turn, points of both sides may break the same attempt.
    failed = count if len(places) == 1 else count // 2
    lab.require(lab.dials("a") >= failed + 2, f"{failed} attempts were to fail, a dialled {lab.dials('a')} times")
    seqs = _connect_seqs(lab)
    lab.require(all(later >= earlier for earlier, later in pairwise(seqs)), f"connect_seq must never fall: {seqs}")
    if not lab.is_v1:
        seqs = [frame["fields"]["connect_seq"] for frame in lab.frames("a", "SESSION_RECONNECT")]
        lab.require(
            all(b > a for a, b in pairwise(seqs)), f"each SESSION_RECONNECT must be ahead of the last: {seqs}"
        )
        lab.require(seqs[-1] >= failed + 1, f"{failed + 1} attempts must have raised connect_seq to that: {seqs}")
    for name, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(name, peer, "reset")
        lab.expect_no_event(name, peer, "remote_reset")
    lab.settle()


@LC.scenario("LC-07", "partially_sent_large", quick=False, cases={"8 MiB": {"mib": 8}, "64 MiB": {"mib": 64}})
def partially_sent_large(lab: Lab, mib: int) -> None:
    """A message that was cut on the wire is replayed as a whole.

    The link is cut in the middle of a large message. The message arrives once, between those before and after it;
    once it is acknowledged neither side holds any of its bytes.
    """
    size_bytes = mib << 20
    _client_and_server(lab)
    lab.connect("a", "b")
    lab.exchange(count=2)
    base = lab.holdings("b")
    lab.cut_at("a", "b", lab.breakpoint("a:MESSAGE:2", byte=size_bytes // 2))
    lab.send("a", "b")
    lab.send("a", "b", size_bytes=size_bytes)
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 5, within_s=120)
    lab.expect_acked("a")
    sizes = [record["size"] for record in lab.records("b", "deliver")]
    lab.require(sizes == [100, 100, 100, size_bytes, 100], f"five messages in this order, delivered were {sizes}")
    lab.require(lab.dials("a") == 2, f"the cut costs one dial, a has dialled {lab.dials('a')} times")
    for name in "ab":
        lab.expect_memory(name, base["held_bytes"])
    lab.settle()


@LC.scenario(
    "LC-08",
    "server_gone_new_address",
    priority=2,
    cases={"new port": {"moved": True}, "new nonce": {"moved": False}},
)
def server_gone_new_address(lab: Lab, moved: bool) -> None:  # noqa: FBT001 - a case
    """A lossless client dials an abandoned address with growing pauses and keeps its queue.

    The server restarts at another port, or with another nonce at the same one, where the client is refused. The
    client's pauses double from 0.2 s up to 15 s, and it keeps its queued messages until its application marks the
    session down; then the session is gone, and a session with the new address starts from nothing.
    SESSION_RECONNECT of v2 has no target address: the server with the new nonce answers it with a reset, which
    raises remote_reset, and refuses every CLIENT_IDENT after that.
    """
    lab.node("a", "client.1", "lossless_client", listens=False)
    lab.node("b", "osd.2", "stateful_server")
    lab.node("c", "osd.2", "stateful_server")
    lab.start("a", "b")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.kill("b")
    lab.send("a", "b", count=5)
    if moved:
        lab.start_late("c")
    else:
        lab.revive("b", new_nonce=True)
        if not lab.is_v1:
            lab.expect_event("a", "b", "remote_reset")
            lab.send("a", "b", count=5)
    if lab.real_time:
        lab.wait_until(lambda: len(lab.dial_pauses_s("a")) > 2, "two pauses after the first")
    else:
        lab.wait(120.0)
    lab.expect_backoff("a", 2 if lab.real_time else 12, first=1)
    queued = lab.snapshot("a")["queued"]
    lab.require(queued == 5, f"all 5 messages must be kept for the server, {queued} are")
    lab.expect_no_event("a", "b", "reset")
    if moved or lab.is_v1:
        lab.expect_no_event("a", "b", "remote_reset")
    lab.mark_down("a", "b")
    lab.require(not any(lab.snapshot("a").values()), f"nothing may be left: {lab.snapshot('a')}")
    lab.expect_no_dial(1.0 if lab.real_time else 60.0, "a")
    if moved:
        lab.connect("a", "c")
        lab.exchange("a", "c", count=2)
    else:
        lab.require(not lab.delivered("a", "b") > 2, "nothing may get to another identity at the old address")
    lab.settle()


@LC.scenario("LC-09", "backoff_schedule", cases={"open": {"opened": True}, "never open": {"opened": False}})
def backoff_schedule(lab: Lab, opened: bool) -> None:  # noqa: FBT001 - a case
    """Failed dials pause 0.2 s, doubling up to 15 s; a success resets the pause.

    A session that was open dials once without a pause first. Once the peer can be reached again the session opens,
    and the next series of pauses begins with 0.2 s.
    """
    initial_s, longest_s = (0.2, 0.4) if lab.real_time else (0.2, 15.0)
    _client_and_server(lab, ms_initial_backoff=initial_s, ms_max_backoff=longest_s)
    schedule = [initial_s]
    while schedule[-1] < longest_s:
        schedule.append(min(2 * schedule[-1], longest_s))
    schedule.append(longest_s)
    for _ in range(2):
        if opened:
            lab.connect("a", "b")
            lab.exchange(count=1)
        before = len(lab.dial_pauses_s("a"))
        lab.refuse("a", "b")
        lab.send("a", "b")
        lab.cut("a", "b")
        if opened:
            cut_s = lab.history[-1].time_s
            lab.wait_for_dials("a", before + 2)
            first_s = lab.records("a", "link", action="dial")[before + 1].time_s - cut_s
            lab.require(first_s < initial_s, f"an open session must dial at once, not after {first_s:g} s")
        first = len(lab.dial_pauses_s("a"))
        lab.wait_for_dials("a", first + 1 + len(schedule), within_s=sum(schedule) + 20)
        pauses = lab.dial_pauses_s("a")[first : first + len(schedule)]
        slack_s = 2.0 if lab.real_time else 0.05
        lab.require(
            all(0 <= pause - wanted < slack_s for pause, wanted in zip(pauses, schedule, strict=True)),
            f"pauses must be {schedule}, they are {pauses}",
        )
        lab.refuse("a", "b", refused=False)
        lab.expect_state("a", "b", "READY", within_s=longest_s + 5)
        lab.expect_acked("a")
        if not opened:
            break
    lab.settle()
