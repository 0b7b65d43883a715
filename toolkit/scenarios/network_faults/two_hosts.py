"""NF: network faults between two correct hosts."""

from itertools import combinations
from typing import Any

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.scenarios.network_faults import NF
from toolkit.scenarios.scenario import ON_NETWORKS, ON_SOCKETS

_READY_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 900.0
_LONGEST_PAUSE_S = 15.0
"""Longest pause between two dials; Ceph's default, as is the ready timeout."""
_LOSSLESS = {name: {"pair": PAIRS[name]} for name in ("peers", "reuse", "client")}
_TWO_WAYS = {"there": {"from_a": True}, "back": {"from_a": False}}


def _conversation(lab: Lab, rounds: int, pause_s: float, count: int = 4) -> int:
    """Have both nodes send in rounds, whatever the network does; returns the number that each has sent."""
    for _ in range(rounds):
        lab.send("a", "b", count)
        lab.send("b", "a", count)
        lab.wait(pause_s)
    return rounds * count


def _all_arrives(lab: Lab, count: int, within_s: float = 120.0) -> None:
    """Wait until every message has arrived, and require that no node raised a reset event."""
    lab.expect_delivered("a", "b", count, within_s=within_s)
    lab.expect_delivered("b", "a", count, within_s=within_s)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, peer, "remote_reset")
        lab.expect_no_event(node, peer, "reset")
    lab.settle(within_s=within_s)


@NF.scenario(
    "NF-01",
    "loss",
    backends=("sim", *ON_NETWORKS),
    only="packets of loopback are not lost",
    cases={
        f"{percent} percent {name}": {"fraction": percent / 100, "pair": PAIRS[name]}
        for percent in (1, 10, 30)
        for name in ("peers", "client", "lossy")
    },
    sim_cases={f"30 percent {name}": "handshakes take minutes" for name in ("peers", "client", "lossy")},
)
def loss(lab: Lab, fraction: float, pair: Pair) -> None:
    """Lost packets delay messages and lose none.

    A share of all packets is lost in both directions, in handshakes too, and TCP sends them again. Links that are
    cut meanwhile reconnect over the same network.
    """
    pair.start(lab)
    lab.lose("a", "b", fraction)
    lab.lose("b", "a", fraction)
    lab.connect("a", "b")
    sent = _conversation(lab, 5, 0.5)
    if pair.lossless:
        lab.cut("a", "b")
        sent += _conversation(lab, 5, 0.5)
    _all_arrives(lab, sent)


@NF.scenario(
    "NF-02",
    "delay_jitter",
    backends=("sim", *ON_NETWORKS),
    only="loopback takes no time",
    cases={
        f"{name} {pair}": {"delay_s": delay_s, "jitter_s": jitter_s, "pair": PAIRS[pair]}
        for name, delay_s, jitter_s in (
            ("5 ms", 0.0, 0.01),
            ("100 ms", 0.05, 0.1),
            ("2 s", 1.9, 0.2),
        )
        for pair in ("peers", "client")
    },
)
def delay_jitter(lab: Lab, delay_s: float, jitter_s: float, pair: Pair) -> None:
    """A slow and uneven network resets nothing.

    Every packet is delayed, each for another time, up to about two seconds each way. Both sides dial at the same
    time, so that the race is decided over that network, and a cut in mid-traffic is followed by a reconnect over
    it.
    """
    slow = {"ms_connection_ready_timeout": 60.0} if delay_s > 1 else {}
    pair.start(lab, **slow)
    lab.delay("a", "b", delay_s, jitter_s)
    lab.delay("b", "a", delay_s, jitter_s)
    lab.dial("a", "b")
    if pair.both_dial:
        lab.dial("b", "a")
    else:
        lab.expect_state("a", "b", "READY", within_s=60.0)
    sent = _conversation(lab, 5, 0.2)
    lab.cut("a", "b")
    sent += _conversation(lab, 5, 0.2)
    _all_arrives(lab, sent, 300.0)


@NF.scenario(
    "NF-06",
    "link_flap",
    backends=("sim", *ON_NETWORKS),
    only="nothing but a network swallows packets",
    sim_cases={f"20 s of 60 {name}": "minutes of flapping" for name in ("peers", "client")},
    cases={
        f"{down:g} s of {period:g} {name}": {"down_s": down, "period_s": period, "pair": PAIRS[name]}
        for down, period in ((1.0, 5.0), (20.0, 60.0))
        for name in ("peers", "client")
    },
)
def link_flap(lab: Lab, down_s: float, period_s: float, pair: Pair) -> None:
    """A link that goes down again and again is used whenever it is up.

    For a part of each period the network drops everything in both directions, without an error. Each time it is up
    again, every message that was sent meanwhile arrives, over the old link or a new one.
    """
    pair.start(lab)
    lab.connect("a", "b")
    sent = 0
    for _ in range(4):
        lab.partition("a", "b")
        sent += _conversation(lab, 2, down_s / 2)
        lab.heal()
        lab.expect_delivered("a", "b", sent, within_s=period_s - down_s)
        lab.expect_delivered("b", "a", sent, within_s=period_s - down_s)
        lab.wait(period_s - down_s)
    _all_arrives(lab, sent)


@NF.scenario(
    "NF-07",
    "blackhole_both",
    backends=("sim", *ON_NETWORKS),
    only="nothing but a network swallows dials",
    sim_cases={
        f"{seconds} s {when} {name}": "the silence is long"
        for seconds in (30, 120, 1000)
        for when in ("open", "dialling")
        for name in ("peers", "client")
    },
    cases={
        f"{seconds} s {when} {name}": {"seconds": seconds, "open_before": when == "open", "pair": PAIRS[name]}
        for seconds in (5, 30, 120, 1000)
        for when in ("open", "dialling")
        for name in ("peers", "client")
    },
)
def blackhole_both(lab: Lab, seconds: float, open_before: bool, pair: Pair) -> None:  # noqa: FBT001 - a case
    """A black hole breaks links by their timeouts, dials back off, and after it everything arrives.

    The network drops everything in both directions. Each handshake breaks after ten seconds, and the next dial
    follows after 0.2 s, 0.4 s and so on, up to 15 s. An open session without traffic keeps its link for 900 s, its
    idle timeout, and dials then. Once the network is healed a session opens within the longest pause plus a ready
    timeout, and no message is missing.
    """
    pair.start(lab, ms_connection_idle_timeout=_IDLE_TIMEOUT_S)
    if open_before:
        lab.connect("a", "b")
        lab.exchange(count=2)
    sent = 2 if open_before else 0
    lab.partition("a", "b")
    began_s = lab.history.of("path")[-1].time_s
    lab.dial("a", "b")
    lab.send("a", "b", 3)
    lab.wait(seconds)
    _expect_timeouts(lab, seconds, began_s, open_before=open_before)
    lab.heal()
    lab.expect_delivered("a", "b", sent + 3, within_s=_LONGEST_PAUSE_S + _READY_TIMEOUT_S + 5.0)
    lab.send("b", "a", 3)
    _all_arrives(lab, sent + 3)


def _expect_timeouts(lab: Lab, seconds: float, began_s: float, *, open_before: bool) -> None:
    """Require that a's links broke by their timeouts so far, and that its dials came after the right pauses."""
    faults = lab.faults("a")
    dialling_s = seconds
    if open_before:
        dialling_s -= _IDLE_TIMEOUT_S
        idle = [record.time_s - began_s for record in lab.records("a", "fault", reason="IDLE_TIMEOUT")]
        in_time = all(abs(at_s - _IDLE_TIMEOUT_S) < 1.0 for at_s in idle)
        lab.require(len(idle) == (dialling_s > 0) and in_time, f"a's link was idle for too long at {idle} s")
        faults = faults[len(idle) :]
    lab.require(set(faults) <= {"READY_TIMEOUT"}, f"a's handshakes can only time out: {faults}")
    pause_s, spent_s, due_s = 0.2, 0.0, []
    while spent_s + _READY_TIMEOUT_S + pause_s < dialling_s:
        due_s.append(_READY_TIMEOUT_S + pause_s)
        spent_s += due_s[-1]
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    seen_s = lab.dial_pauses_s("a")[int(open_before) :]
    on_time = len(seen_s) == len(due_s) and all(
        abs(seen - due) < 0.05 for seen, due in zip(seen_s, due_s, strict=True)
    )
    lab.require(on_time, f"a must dial after {due_s} s, it dialled after {seen_s} s")


@NF.scenario(
    "NF-08",
    "blackhole_one_way",
    backends=("sim",),
    only="timeouts of handshakes and idle links take a virtual clock",
    cases={
        f"{way} {when} {name}": {**_TWO_WAYS[way], "open_before": when == "open", "pair": PAIRS[name]}
        for way in _TWO_WAYS
        for when in ("open", "dialling")
        for name in ("peers", "client")
    },
)
def blackhole_one_way(lab: Lab, from_a: bool, open_before: bool, pair: Pair) -> None:  # noqa: FBT001 - a case
    """If only one direction fails, a handshake times out, and every message arrives once both work again.

    The network drops what one side sends. No session opens while a direction is missing: the handshake times out
    and the connector dials again. An open session still delivers messages in the direction that works.
    """
    pair.start(lab)
    sent = 2
    if open_before:
        lab.connect("a", "b")
        lab.exchange(count=2)
    lab.partition(*(("a", "b") if from_a else ("b", "a")), one_way=True)
    if not open_before:
        lab.send("a", "b", sent)
        lab.wait(60.0)
        lab.require(lab.session_state("a", "b") != "READY", "a session over half a network")
        lab.require(lab.dials("a") >= 3, f"{lab.dials('a')} dials within a minute")
    else:
        lab.send("a", "b", 3)
        lab.send("b", "a", 3)
        lab.wait(30.0)
        unreachable, reachable = ("b", "a") if from_a else ("a", "b")
        lab.require(lab.delivered(unreachable, reachable) == sent + 3, "the direction that works does not")
        lab.require(lab.delivered(reachable, unreachable) == sent, "the direction that is dead works")
        sent += 3
    lab.heal()
    lab.expect_delivered("a", "b", sent, within_s=40.0)
    lab.send("a", "b", 2)
    lab.send("b", "a", 2 if open_before else sent + 2)
    _all_arrives(lab, sent + 2)


@NF.scenario(
    "NF-11",
    "half_close",
    priority=2,
    cases={f"{way} {name}": {**_TWO_WAYS[way], "pair": PAIRS[name]} for way in _TWO_WAYS for name in _LOSSLESS},
)
def half_close(lab: Lab, from_a: bool, pair: Pair) -> None:  # noqa: FBT001 - a case
    """A peer that shuts down its write side ends the link.

    One side's stream ends while the other direction stays open. Messages before the end are delivered, then the
    end is a fault like any other: the session resumes on a new link.
    """
    pair.start(lab)
    lab.connect("a", "b")
    lab.exchange(count=3)
    dials = lab.dials("a") + lab.dials("b")
    sender, receiver = ("a", "b") if from_a else ("b", "a")
    lab.send(sender, receiver, 5)
    lab.half_close(sender, receiver)
    lab.send("a", "b", 2)
    lab.send("b", "a", 2)
    lab.expect_delivered(sender, receiver, 10)
    lab.expect_delivered(receiver, sender, 5)
    lab.require(lab.dials("a") + lab.dials("b") > dials, "nobody has dialled again")
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


def _splits(names: str) -> dict[str, dict[str, Any]]:
    """Every split of the nodes into two parts that cannot reach each other, and splits with a bridge."""
    cases: dict[str, dict[str, Any]] = {}
    for size in range(1, len(names) // 2 + 1):
        for part in combinations(names, size):
            rest = [name for name in names if name not in part]
            cases["".join(part)] = {"apart": [(a, b) for a in part for b in rest]}
    for bridge in names:
        left, right = [name for name in names if name < bridge], [name for name in names if name > bridge]
        if left and right:
            cases[f"bridge {bridge}"] = {"apart": [(a, b) for a in left for b in right]}
    return cases


@NF.scenario(
    "NF-14",
    "partition_matrix",
    priority=2,
    backends=("sim", *ON_NETWORKS),
    only="partitions last a minute, and there are many",
    cases=_splits("abcde"),
)
def partition_matrix(lab: Lab, apart: list[tuple[str, str]]) -> None:
    """In any partition of five nodes connected pairs go on, and after healing every pair has one session.

    All five are connected with each other. Then some pairs cannot reach each other. The other pairs go on without
    interruption; after the network is healed every message of every pair arrives.
    """
    names = _mesh(lab, 5)
    pairs = list(combinations(names, 2))
    for a, b in apart:
        lab.partition(a, b)
    for a, b in pairs:
        lab.send(a, b, 2)
        lab.send(b, a, 2)
    cut_off = {frozenset(pair) for pair in apart}
    for a, b in pairs:
        if frozenset((a, b)) not in cut_off:
            lab.expect_delivered(b, a, 3, within_s=2.0)
            lab.expect_delivered(a, b, 3, within_s=2.0)
    lab.wait(20.0)
    lab.heal()
    for a, b in pairs:
        lab.expect_delivered(b, a, 3, within_s=60.0)
        lab.expect_delivered(a, b, 3, within_s=60.0)
    lab.settle()
    for name in names:
        registered = lab.snapshot(name)["registry"]
        lab.require(registered == len(names) - 1, f"{name} has {registered} sessions")


def _mesh(lab: Lab, count: int) -> list[str]:
    """Start lossless peers that are all connected; each pair has exchanged a message each way."""
    names = [chr(ord("a") + index) for index in range(count)]
    for index, name in enumerate(names):
        lab.node(name, f"osd.{index}", "lossless_peer")
    lab.start()
    for a, b in combinations(names, 2):
        lab.dial(a, b)
        lab.send(b, a)
        lab.send(a, b)
    for a, b in combinations(names, 2):
        lab.expect_delivered(b, a, 1)
        lab.expect_delivered(a, b, 1)
    return names


@NF.scenario(
    "NF-15", "asymmetric_three", priority=2, backends=("sim",), only="pauses between dials grow for minutes"
)
def asymmetric_three(lab: Lab) -> None:
    """Two of three nodes that cannot reach each other back off, and the third keeps its sessions with both.

    The two dial with pauses that grow to 15 s and lose no message; the third one's sessions get no further event.
    """
    for index, name in enumerate("abc"):
        lab.node(name, f"osd.{index}", "lossless_peer")
    lab.start()
    lab.refuse("a", "c")
    lab.refuse("c", "a")
    lab.connect("a", "b")
    lab.connect("c", "b")
    lab.send("a", "c", 3)
    lab.send("c", "a", 3)
    for seconds in (5.0, 60.0):
        lab.exchange("a", "b", 3)
        lab.exchange("b", "c", 3)
        lab.wait(seconds)
    dials = lab.dials("a")
    lab.wait(60.0)
    more = lab.dials("a") - dials
    lab.require(3 <= more <= 5, f"{more} dials of a within a minute; 15 s are between two of them")
    lab.expect_events("b", "a", accept=1)
    lab.expect_events("b", "c", accept=1)
    lab.heal()
    lab.expect_delivered("c", "a", 3, within_s=30.0)
    lab.expect_delivered("a", "c", 3, within_s=30.0)
    lab.settle()


@NF.scenario(
    "NF-16",
    "slow_syn",
    priority=2,
    backends=("sim",),
    only="a SYN cannot be held back on loopback, nor a proxy dialled late",
    cases={
        f"{seconds:g} s {name}": {"seconds": seconds, "pair": PAIRS[name]}
        for seconds in (9.0, 9.999, 12.0)
        for name in ("peers", "client")
    },
)
def slow_syn(lab: Lab, seconds: float, pair: Pair) -> None:
    """A dial that is answered late is used in time or abandoned.

    The connection request takes nearly as long as the ready timeout, or longer. One link carries the session in
    the end, and an abandoned one has no effect when it arrives.
    """
    pair.start(lab)
    lab.delay_dial("a", "b", seconds)
    lab.dial("a", "b")
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", 3, within_s=30.0)
    lab.wait(15.0)
    lab.exchange(count=2)
    lab.expect_event("a", "b", "connect", 1)
    lab.expect_events("b", "a", accept=1)
    lab.settle()
    for name in "ab":
        lab.require(lab.snapshot(name)["links"] == 1, f"{name} has {lab.snapshot(name)['links']} links")


@NF.scenario(
    "NF-17",
    "socket_buffers_tiny",
    priority=2,
    backends=ON_SOCKETS,
    only="socket options of the kernel",
    cases={
        # A window this small may close between any two segments, and a kernel asks only every 200 ms whether it is
        # open again: some 500 bytes each time.
        "the smallest there are": {"rcvbuf_bytes": 1, "message_bytes": 4_000},
        "16 KiB": {"rcvbuf_bytes": 16_384, "message_bytes": 100_000},
    },
)
def socket_buffers_tiny(lab: Lab, rcvbuf_bytes: int, message_bytes: int) -> None:
    """Sockets with hardly any buffer carry messages that do not fit in it.

    Every message is written and read in many pieces, also after a cut.
    """
    lab.two(ms_tcp_rcvbuf=rcvbuf_bytes)
    lab.connect("a", "b")
    for sent in (2, 4):
        for node, peer in ("a", "b"), ("b", "a"):
            lab.send(node, peer, 2, message_bytes)
        for node, peer in ("a", "b"), ("b", "a"):
            lab.expect_delivered(node, peer, sent, within_s=60.0)
        lab.expect_acked("a")
        lab.cut("a", "b")
    lab.settle()


@NF.scenario(
    "NF-18",
    "random_socket_failures",
    cases={
        f"1 in {one_in} {name}": {"one_in": one_in, "pair": PAIRS[name]}
        for one_in in (5000, 2500, 1500, 1000, 500, 30)
        for name in ("peers", "client")
    },
)
def random_socket_failures(lab: Lab, one_in: int, pair: Pair) -> None:
    """Sockets that fail at random lose, repeat and reorder no message.

    One in so many reads and writes finds its socket shut down, from one in 5000 to one in 30.
    """
    pair.start(lab, ms_inject_socket_failures=one_in, ms_max_backoff=0.5)
    lab.dial("a", "b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1, within_s=60.0)
    rounds = 5 if lab.real_time else 20
    sent = _conversation(lab, rounds, 0.02, 10)
    lab.expect_delivered("a", "b", sent + 1, within_s=60.0)
    lab.expect_delivered("b", "a", sent, within_s=60.0)
    lab.settle(within_s=60.0)


@NF.scenario(
    "NF-19",
    "delayed_delivery_types",
    priority=2,
    cases={kind: {"kind": kind} for kind in ("osd", "mon", "mds", "client", "osd client")},
)
def delayed_delivery_types(lab: Lab, kind: str) -> None:
    """Delivery is delayed for some types of peers only, and order is kept.

    Messages of peers of one type, or of two, are delivered up to a second late. Each peer's messages stay in their
    order, and those of other types are delivered at once.
    """
    late: dict[str, Any] = {
        "ms_inject_delay_type": kind,
        "ms_inject_delay_probability": 1.0,
        "ms_inject_delay_max": 1.0,
    }
    lab.node("server", "mgr.0", "stateful_server", **late)
    senders = {"osd": "osd.1", "mon": "mon.0", "mds": "mds.0", "client": "client.7"}
    for name, entity in senders.items():
        lab.node(name, entity, "lossless_client", listens=False)
    lab.start()
    for name in senders:
        lab.connect(name, "server")
        lab.send(name, "server", 20)
    lab.wait(0.1)
    for name in senders:
        count = lab.delivered(name, "server")
        if name in kind.split():
            lab.require(count < 20, f"all {count} messages of {name} came at once")
        else:
            lab.require(count == 20, f"{count} of 20 messages of {name} came, which were not to be delayed")
    for name in senders:
        lab.expect_delivered(name, "server", 20)
    lab.settle()


@NF.scenario("NF-20", "slow_dispatch", priority=2, cases=_LOSSLESS)
def slow_dispatch(lab: Lab, pair: Pair) -> None:
    """A full dispatch throttle pauses the senders without losing messages.

    One side's application keeps its messages for a while. Reading stops at the dispatch throttle, and everything
    is delivered in order once the application releases them.
    """
    limit_bytes, size_bytes, count = 4000, 1000, 40
    pair.start(lab, ms_dispatch_throttle_bytes=limit_bytes)
    lab.connect("a", "b")
    lab.exchange(count=1)
    for turn in range(3):
        lab.hold("b")
        lab.send("a", "b", count, size_bytes)
        lab.wait(0.3)
        held = lab.snapshot("b")["dispatch_bytes"]
        lab.require(0 < held <= limit_bytes + size_bytes, f"{held} bytes held, the limit is {limit_bytes}")
        lab.require(lab.delivered("a", "b") < 1 + (turn + 1) * count, "the throttle holds nothing back")
        lab.release("b")
        lab.expect_delivered("a", "b", 1 + (turn + 1) * count)
    lab.settle()


@NF.scenario(
    "NF-21",
    "app_level_blackhole",
    priority=2,
    cases={"towards": {"blind": "a"}, "from": {"blind": "b"}},
)
def app_level_blackhole(lab: Lab, blind: str) -> None:
    """A messenger that discards messages keeps its link and answers keepalives.

    A blackhole option discards messages to and from peers of one type inside one messenger. The link stays open
    and keepalives are answered: only an application that waits for an answer to its message notices.
    """
    lab.node("a", "mgr.1", "lossless_peer", ms_blackhole_osd=blind == "a")
    lab.node("b", "osd.2", "lossless_peer", ms_blackhole_mgr=blind == "b")
    lab.start()
    lab.connect("a", "b")
    dials = lab.dials("a") + lab.dials("b")
    lab.send("a", "b", 3)
    lab.send("b", "a", 3)
    lab.keepalive("a", "b")
    lab.wait(1.0)
    lab.require(lab.delivered("b", "a") == lab.delivered("a", "b") == 0, "a message came through")
    acks = [
        f for f in lab.history.node("a").of("frame") if "KEEPALIVE2_ACK" in f["tag"] and f["direction"] == "rx"
    ]
    lab.require(len(acks) == 1, f"{len(acks)} answers to the keepalive")
    lab.require(lab.dials("a") + lab.dials("b") == dials, "the connection was given up")


@NF.scenario(
    "NF-22",
    "server_socket_toggle",
    priority=2,
    cases={
        f"{moment} {name}": {"moment": moment, "pair": PAIRS[name]}
        for moment in ("in mid-traffic", "before the first byte", "right after the end")
        for name in ("peers", "client")
    },
)
def server_socket_toggle(lab: Lab, moment: str, pair: Pair) -> None:
    """A socket that closes at an unusual moment blocks neither side.

    It closes while both sides read and write, before any byte was sent on it, or in the moment in which its
    session is marked down.
    """
    pair.start(lab)
    if moment == "before the first byte":
        lab.arm("a", "BANNER_WRITE", "BLOCK")
        lab.dial("a", "b")
        lab.expect_hit("a", "BANNER_WRITE")
        lab.cut("a", "b")
        lab.unblock("a")
        lab.send("a", "b", 2)
        lab.expect_delivered("a", "b", 2)
        lab.settle()
        return
    lab.connect("a", "b")
    lab.exchange(count=3)
    if moment == "in mid-traffic":
        lab.send("a", "b", 10, 5000)
        lab.send("b", "a", 10, 5000)
        lab.cut("a", "b")
        lab.expect_delivered("a", "b", 13)
        lab.expect_delivered("b", "a", 13)
    else:
        lab.cut("a", "b")
        lab.mark_down("a", "b")
        lab.wait(0.2)
        lab.connect("a", "b")
        lab.exchange(count=3)
    lab.settle()
