"""SH: mark_down, shutdown, lifecycle."""

from messenger.errors import LocalError
from messenger.interception import Action
from toolkit.lab.lab import Lab
from toolkit.lab.ways import CRC_WAYS, V1_WAYS, Way
from toolkit.scenarios.lifecycle import SH
from toolkit.scenarios.scenario import ON_SOCKETS

_SCOPES = {"connection": {"whole": False}, "messenger": {"whole": True}}


def _held_message(lab: Lab, policy_a: str, policy_b: str, **options: float) -> str:
    """Leave a message of a's unacknowledged by blocking b where it reads it; returns that point."""
    lab.two(policy_a, policy_b, "client.1" if policy_a.endswith("client") else "osd.1", **options)  # type: ignore[arg-type]
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("a")
    point = lab.point("MESSAGE", "READ")
    lab.arm("b", point, Action.BLOCK)
    lab.send("a", "b")
    lab.expect_hit("b", point)
    return point


def _shut(lab: Lab, *, whole: bool) -> None:
    """Shut down a's session, or all of a, gracefully."""
    if whole:
        lab.stop("a", graceful=True)
    else:
        lab.shut("a", "b", keep=True)


def _expect_over(lab: Lab, *, whole: bool, within_s: float) -> None:
    lab.expect_state("a", "b", "CLOSED", within_s=within_s)
    if whole:
        lab.expect_stopped("a", within_s=within_s)
    lab.expect_no_event("a", "b", "reset")
    lab.wait(0.05)
    left = {key: value for key, value in lab.snapshot("a").items() if value}
    lab.require(not left, f"nothing may be left at a: {left}")


@SH.scenario("SH-01", "graceful_lossless", cases=_SCOPES)
def graceful_lossless(lab: Lab, whole: bool) -> None:  # noqa: FBT001 - a case
    """Graceful shutdown of a lossless session waits until everything is acknowledged.

    A message is not acknowledged yet when its sender shuts down the session, or its whole messenger. A tenth of a
    second later the session is still open, and messages sent now are dropped. Once the acknowledgement arrives it
    closes, without an event.
    """
    point = _held_message(lab, "lossless_peer_reuse", "lossless_peer_reuse")
    _shut(lab, whole=whole)
    lab.send("a", "b")
    lab.wait(0.1)
    lab.require(lab.session_state("a", "b") == "READY", "the session must wait for the acknowledgement")
    lab.unblock("b", point)
    _expect_over(lab, whole=whole, within_s=1.0)
    lab.require(lab.delivered("a", "b") == 3, f"3 messages were sent in time, {lab.delivered('a', 'b')} came")
    lab.expect_state("b", "a", "STANDBY")
    lab.settle()


@SH.scenario("SH-02", "immediate_lossy", cases=_SCOPES)
def immediate_lossy(lab: Lab, whole: bool) -> None:  # noqa: FBT001 - a case
    """Graceful shutdown of a lossy session waits until everything is written.

    Its message has been written and will never be acknowledged; the session does not wait for that. The server
    gets a reset event.
    """
    point = _held_message(lab, "lossy_client", "stateless_server")
    lab.wait(0.05)
    _shut(lab, whole=whole)
    _expect_over(lab, whole=whole, within_s=3.0 if lab.real_time else 0.1)
    lab.unblock("b", point)
    lab.expect_event("b", "a", "reset")
    lab.require(lab.delivered("a", "b") <= 3, "nothing may come twice")
    lab.settle()


@SH.scenario("SH-03", "shutdown_timeout", cases=_SCOPES)
def shutdown_timeout(lab: Lab, whole: bool) -> None:  # noqa: FBT001 - a case
    """A graceful shutdown does not wait longer than ms_shutdown_timeout.

    The acknowledgement never arrives. The session is open right after the call, and closed after 0.2 s, or a
    second on sockets.
    """
    timeout_s, late_s = (1.0, 3.0) if lab.real_time else (0.2, 0.3)
    _held_message(lab, "lossless_peer_reuse", "lossless_peer_reuse", ms_shutdown_timeout=timeout_s)
    _shut(lab, whole=whole)
    began_s = lab.history[-1].time_s
    lab.wait(0.1)
    lab.require(lab.session_state("a", "b") == "READY", "the session must wait for the acknowledgement at first")
    _expect_over(lab, whole=whole, within_s=timeout_s + late_s)
    closed = lab.records("a", "state", state="CLOSED")[0]
    took_s = closed.time_s - began_s
    on_time = timeout_s - 0.05 <= took_s <= timeout_s + late_s
    lab.require(on_time, f"the session must be forced down after {timeout_s:g} s, it took {took_s:g} s")
    lab.unblock("b")
    lab.settle()


@SH.scenario(
    "SH-04",
    "messenger_shutdown_under_load",
    cases={
        f"{nodes} {how}": {"nodes": nodes.split(), "graceful": how == "gracefully"}
        for nodes in ("a", "b", "a b")
        for how in ("at once", "gracefully")
    },
)
def messenger_shutdown_under_load(lab: Lab, nodes: list[str], graceful: bool) -> None:  # noqa: FBT001 - a case
    """A messenger under load shuts down at once, or gracefully within ms_shutdown_timeout.

    Both sides send without pause, and one of them, or both, shut down meanwhile. An immediate shutdown is over at
    once. A graceful one is over after ms_shutdown_timeout, here half a second, at the latest; in simulation, where
    each side reads too slowly for its peer to finish, no sooner. No session, link or timer is left.
    """
    timeout_s = 0.5
    lab.two("lossy_client", "stateless_server", "client.1", ms_shutdown_timeout=timeout_s, write_ahead_bytes=4000)
    lab.connect("a", "b")
    lab.exchange(count=1)
    stuck = graceful and not lab.real_time
    if stuck:
        lab.slow("a", "b", 1000.0)
        lab.slow("b", "a", 1000.0)
    for _ in range(4):
        lab.send("a", "b", count=50, size_bytes=2000)
        lab.send("b", "a", count=50, size_bytes=2000)
    lab.wait(0.1 if lab.real_time else 0.004)
    for name in nodes:
        lab.stop(name, graceful=graceful)
    began_s = next(record.time_s for record in lab.history.of("step") if record["verb"] == "stop")
    lab.expect_stopped(*nodes)
    least_s = timeout_s if stuck and len(nodes) == 1 else 0.0
    most_s = (timeout_s if graceful else 0.0) + (3.0 if lab.real_time else 0.05)
    for name in nodes:
        took_s = lab.records(name, "process", action="stop")[-1].time_s - began_s
        lab.require(least_s <= took_s <= most_s, f"{name} took {took_s} s to shut down, not {least_s} to {most_s}")
    lab.wait(0.1)
    for name in nodes:
        held = lab.holdings(name)
        left = {kind: held[kind] for kind in ("links", "sessions", "timers") if held[kind]}
        lab.require(not left, f"nothing may be left of {name}: {left}")
    lab.heal()
    lab.settle()


@SH.scenario(
    "SH-05",
    "markdown_in_dispatch",
    cases={"own": {"marked": "a"}, "another's": {"marked": "c"}, "shutdown": {"marked": ""}},
)
def markdown_in_dispatch(lab: Lab, marked: str) -> None:
    """A dispatcher may end any connection, or the whole messenger, while it handles a message.

    Again and again it marks down the connection whose message it handles, or that of another peer, and the clients
    open new ones; or it shuts the messenger down. Nothing blocks, and further messages arrive.
    """
    rounds = 15
    for number, name in enumerate("ac"):
        lab.node(name, f"client.{number + 1}", "lossy_client", listens=False)
    lab.node("b", "osd.2", "stateless_server")
    lab.start()
    if not marked:
        lab.connect("a", "b")  # or messages of c stop b before a is connected
        lab.on_delivery("b", "stop", nth=5, graceful=False)
        lab.send("a", "b", count=20)
        lab.send("c", "b", count=20)
        lab.expect_stopped("b")
        lab.expect_event("a", "b", "reset")
        dispatched = lab.delivered("a", "b") + lab.delivered("c", "b")
        lab.wait(0.2)
        later = lab.delivered("a", "b") + lab.delivered("c", "b") - dispatched
        lab.require(later == 0, f"a messenger that is shut down must dispatch nothing, it dispatched {later}")
        return
    other = "c"
    lab.connect(other, "b")
    lab.send(other, "b")
    lab.expect_delivered(other, "b", 1)
    for turn in range(1, rounds + 1):
        lab.on_delivery("b", "mark_down", peer=marked)
        lab.send("a", "b", count=2)
        lab.expect_event(marked, "b", "reset", turn)
        if marked == other:
            lab.expect_delivered("a", "b", 2 * turn)
            before = lab.delivered(other, "b")
            lab.send(other, "b")
            lab.expect_delivered(other, "b", before + 1)
    if marked == "a":
        lab.require(
            lab.delivered("a", "b") == rounds, "after mark_down nothing of the connection may be dispatched"
        )
        lab.send(other, "b", count=3)
        lab.expect_delivered(other, "b", 4)
        lab.expect_no_event(other, "b", "reset")
    lab.expect_no_event("b", marked, "reset")
    lab.settle()


@SH.scenario(
    "SH-06",
    "send_after_close",
    cases={"marked down": {"how": "mark_down"}, "shut": {"how": "shut"}, "messenger": {"how": "stop"}},
)
def send_after_close(lab: Lab, how: str) -> None:
    """Messages sent on a closed connection or messenger are dropped.

    The application goes on sending on a connection that it has marked down. Those messages are neither delivered
    nor kept, none causes a dial, and no event follows. A messenger that is shut down opens no new connection
    either.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("a")
    if how == "stop":
        lab.stop("a")
        lab.expect_stopped("a")
    elif how == "shut":
        lab.shut("a", "b", keep=True)
        lab.expect_state("a", "b", "CLOSED")
    else:
        lab.mark_down("a", "b", keep=True)
    lab.send("a", "b", count=5)
    lab.expect_no_dial(0.5, "a")
    lab.require(lab.delivered("a", "b") == 2, "nothing may arrive of a closed connection")
    left = {key: value for key, value in lab.snapshot("a").items() if value}
    lab.require(not left, f"nothing may be held for a closed connection: {left}")
    lab.expect_events("a", "b", connect=1)
    if how == "stop":
        try:
            lab.dial("a", "b", anonymous=True)
        except LocalError:
            lab.settle()
            return
        lab.require(condition=False, what="a messenger that is shut down must not open connections")
    lab.settle()


_POINTS = {
    # name: node, point on v2, on v1, which pass of it on v1
    "a connecting": ("a", "SOCKET_CONNECTING", "SOCKET_CONNECTING", 1),
    "a banner out": ("a", "BANNER_WRITE", "BANNER_WRITE", 1),
    "a banner in": ("a", "BANNER_READ", "BANNER_READ", 1),
    "a hello in": ("a", "HELLO READ", "IDENTIFY READ", 1),
    "a auth out": ("a", "AUTH_REQUEST WRITE", "CONNECT WRITE", 1),
    "a auth in": ("a", "AUTH_DONE READ", "CONNECT_REPLY READ", 1),
    "a ident out": ("a", "CLIENT_IDENT WRITE", "CONNECT WRITE", 2),
    "a ident in": ("a", "SERVER_IDENT READ", "CONNECT_REPLY READ", 2),
    "b banner out": ("b", "BANNER_WRITE", "BANNER_WRITE", 1),
    "b hello in": ("b", "HELLO READ", "IDENTIFY READ", 1),
    "b auth in": ("b", "AUTH_REQUEST READ", "CONNECT READ", 1),
    "b auth out": ("b", "AUTH_DONE WRITE", "CONNECT_REPLY WRITE", 1),
    "b ident in": ("b", "CLIENT_IDENT READ", "CONNECT READ", 2),
    "b ident out": ("b", "SERVER_IDENT WRITE", "CONNECT_REPLY WRITE", 2),
    "a message out": ("a", "MESSAGE WRITE", "MSG WRITE", 1),
    "b message in": ("b", "MESSAGE READ", "MSG READ", 1),
}


@SH.scenario(
    "SH-07",
    "close_at_every_await",
    priority=2,
    cases={
        f"{name}, {how}": {"place": place, "how": how}
        for name, place in _POINTS.items()
        for how in ("mark_down", "stop", "graceful stop")
    },
)
def close_at_every_await(lab: Lab, place: tuple[str, str, str, int], how: str) -> None:
    """A session can be ended at every point and leaves nothing behind.

    At every point of a handshake and of a message's way the side that is blocked there marks its session down, or
    shuts its messenger down. Its memory is freed, no event follows on that side, and releasing the point later has
    no effect.
    """
    node, v2_point, v1_point, v1_nth = place
    point = v1_point if lab.is_v1 else v2_point
    lab.two("lossless_peer", ms_shutdown_timeout=0.2)
    lab.arm(node, point, Action.BLOCK, nth=v1_nth if lab.is_v1 else 1)
    lab.dial("a", "b")
    lab.send("a", "b", count=2)
    lab.expect_hit(node, point)
    peer = "b" if node == "a" else "a"
    if how != "mark_down":
        lab.stop(node, graceful=how.startswith("graceful"))
        lab.expect_stopped(node, within_s=1.0)
    elif lab.session(node, peer):
        lab.mark_down(node, peer)
        lab.require(lab.snapshot(node)["registry"] == 0, "the session must be over")
    if how != "mark_down":
        lab.unblock(node, point)
        lab.wait(0.5)
        held = lab.holdings(node)
        wanted = dict.fromkeys(("links", "held_bytes", "unwritten_bytes", "timers", "sessions"), 0)
        lab.require({key: held[key] for key in wanted} == wanted, f"nothing may be left of {node}: {held}")
        lab.expect_no_event(node, peer, "reset")
        return
    lab.unblock(node, point)
    lab.mark_down("a", "b")
    lab.wait(0.5)
    lab.connect("a", "b")
    before = lab.delivered("a", "b")
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", before + 2)
    lab.settle()


@SH.scenario("SH-08", "loopback")
def loopback(lab: Lab) -> None:
    """Messages to oneself are dispatched in order without a link.

    They are delivered between the messages of a peer. Marking the connection to oneself down has no effect: the
    next messages arrive as well.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    links = lab.snapshot("a")["links"]
    for _ in range(5):
        lab.send("a", "a", count=4)
        lab.send("b", "a", count=4)
    lab.expect_delivered("a", "a", 20)
    lab.expect_delivered("b", "a", 20)
    tids = [record["tid"] for record in lab.records("a", "deliver", peer="a")]
    lab.require(tids == list(range(1, 21)), f"messages to oneself must stay in order: {tids}")
    lab.mark_down("a", "a")
    lab.send("a", "a", count=2)
    lab.expect_delivered("a", "a", 22)
    lab.expect_events("a", "a")
    lab.require(lab.snapshot("a")["links"] == links, "no link may be opened for it")
    lab.require(lab.dials("a") == 1, "nobody dials itself")
    lab.settle()


def _sum(dump: dict[str, dict[str, float]], counter: str) -> int:
    """The sum of a counter over all workers."""
    return int(sum(group[counter] for name, group in dump.items() if name.startswith("AsyncMessenger::Worker-")))


@SH.scenario("SH-09", "dump_and_counters")
def dump_and_counters(lab: Lab) -> None:
    """Admin commands show the same counters as the history.

    Messages and bytes sent and received, connections created and active: the counters of both sides agree with the
    history and with each other, throttles are back at zero, and after mark_down no connection is counted as
    active.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.exchange(count=10)
    for name in "ab":
        lab.expect_acked(name)
    a, b = lab.counters("a"), lab.counters("b")
    for dump in a, b:
        counts = {name: _sum(dump, name) for name in ("msgr_send_messages", "msgr_recv_messages")}
        lab.require(set(counts.values()) == {10}, f"each side has sent and received 10 messages: {counts}")
        lab.require(_sum(dump, "msgr_active_connections") == 1, "one connection is alive")
    sent, received = _sum(a, "msgr_send_bytes"), _sum(b, "msgr_recv_bytes")
    lab.require(sent == received > 1000, f"a has sent {sent} bytes, b received {received}")
    lab.cut("a", "b")
    lab.exchange(count=2)
    lab.settle()
    lab.wait(0.1)  # shares of other shards are returned
    workers = [name for name in lab.counters("a") if name.startswith("AsyncMessenger::Worker-")]
    lab.require(len(workers) == 1 + lab.way.workers, f"one group for each shard: {workers}")
    throttle = next(
        group for name, group in lab.counters("a").items() if name.startswith("throttle-msgr_dispatch")
    )
    lab.require(
        throttle["val"] == 0 and throttle["get"] == 12, f"12 messages went through the throttle: {throttle}"
    )
    for name, peer in ("a", "b"), ("b", "a"):
        lab.mark_down(name, peer)
        lab.wait(0.05)
        active = _sum(lab.counters(name), "msgr_active_connections")
        lab.require(active == 0, f"{name} has marked its connection down, but counts {active}")
    lab.settle()


_TRANSPORT_WAYS: tuple[Way, ...] = (*CRC_WAYS, *V1_WAYS[:1])


@SH.scenario(
    "SH-10",
    "event_loop_primitives",
    backends=ON_SOCKETS,
    only="timers and threads of the transport are what it is about",
    ways=_TRANSPORT_WAYS,
    cases={"timers": {"what": "timers"}, "wake-ups": {"what": "wake-ups"}, "descriptors": {"what": "descriptors"}},
)
def event_loop_primitives(lab: Lab, what: str) -> None:
    """Timers fire once, wake-ups across threads are not lost, and many descriptors work.

    Twenty periods of a timer send twenty keepalives. Two thousand messages that are queued one by one are all
    sent, with shards across threads. A hundred connections, with several hundred sockets, are open side by side.
    """
    if what == "timers":
        lab.two("lossless_peer")
        lab.connect("a", "b")
        lab.keep_alive("a", "b", 0.05, 5.0)
        lab.wait(1.03)
        asked = len(lab.frames("a", "KEEPALIVE2"))
        lab.require(15 <= asked <= 20, f"20 periods of a timer have passed, it fired {asked} times")
        lab.require(not lab.records("a", "fault"), "nothing may fault")
        return
    lab.two("lossy_client", "stateless_server", "client.1")
    if what == "wake-ups":
        lab.connect("a", "b")
        answers = 0
        for _ in range(500):
            lab.send("a", "b", size_bytes=10)
            if lab.delivered("a", "b"):
                lab.send("b", "a", size_bytes=10)
                answers += 1
        lab.expect_delivered("a", "b", 500)
        lab.expect_delivered("b", "a", answers)
        lab.settle()
        return
    for number in range(100):
        lab.dial("a", "b", anonymous=True, alias=f"b{number}")
        lab.send("a", f"b{number}")
    lab.expect_delivered("a", "b", 100)
    lab.require(lab.holdings("b")["links"] == 100, f"a hundred links must be open: {lab.holdings('b')}")
    for number in range(100):
        lab.mark_down("a", f"b{number}")
    lab.expect("b", "links", 0)
    lab.settle()


@SH.scenario(
    "SH-11",
    "socket_primitives",
    backends=ON_SOCKETS,
    only="the sockets are what it is about",
    ways=_TRANSPORT_WAYS,
)
def socket_primitives(lab: Lab) -> None:
    """Sockets are accepted, carry bytes both ways, and are closed in order.

    Three connections are accepted, and each carries 128 blocks of 32 KiB in both directions at once, whole and in
    order. Then they are shut down one after the other: each side sees the end of exactly those.
    """
    blocks, block_bytes = 128, 32 << 10
    lab.two("lossy_client", "stateless_server", "client.1")
    for number in range(3):
        alias = f"b{number}"
        lab.dial("a", "b", anonymous=True, alias=alias)
        lab.expect_event("b", "a", "accept", number + 1)
        lab.send("a", alias, count=blocks, size_bytes=block_bytes)
        lab.send("b", "a", count=blocks, size_bytes=block_bytes)
    lab.expect_delivered("a", "b", 3 * blocks)
    lab.expect_delivered("b", "a", 3 * blocks)
    for number in range(3):
        lab.shut("a", f"b{number}")
        lab.expect_event("b", "a", "reset", number + 1)
        lab.expect("a", "links", 2 - number)
    lab.expect_events("a", "b", connect=3)
    lab.settle()
