"""TH: throttling and back-pressure."""

from dataclasses import replace
from typing import Any

from messenger.batch import BATCH_BYTES
from messenger.cephx.exchange import AuthMethod
from messenger.interception import Action
from messenger.v2.wire import AuthRequest, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.ways import ALL_WAYS, Way
from toolkit.node.raw.frames import RawFrame
from toolkit.scenarios.scenario import ON_SOCKETS
from toolkit.scenarios.throttling import TH

_SIZE_BYTES = 1000


def _peers(lab: Lab, throttle: dict[str, int] | None = None, *, clients: str = "a", **options: Any) -> None:  # noqa: ANN401 - Config options
    """Connect lossless peers to b, which has the throttle and the options."""
    for number, name in enumerate(clients):
        lab.node(name, f"osd.{10 + number}", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer", throttle=throttle, **options)
    lab.start()
    for name in clients:
        lab.connect(name, "b")


def _share(lab: Lab, limit: int) -> int:
    """The part of a limit for one link: each shard that runs data phases has an equal part."""
    return -(-limit // max(1, lab.way.workers))


def _throttled(lab: Lab, name: str) -> int:
    return int(lab.holdings("b")["throttled"].get(name, 0))


def _expect_stopped_at(lab: Lab, count: int) -> None:
    """Require that node b delivers ``count`` messages of a, and that no frame or link event follows."""
    lab.expect_delivered("a", "b", count)
    lab.wait(0.1)
    before = len(lab.records("b", "frame")) + len(lab.records("b", "link"))
    lab.wait(0.5 if lab.real_time else 20.0)
    after = len(lab.records("b", "frame")) + len(lab.records("b", "link"))
    lab.require(
        lab.delivered("a", "b") == count, f"{count} messages may be delivered, {lab.delivered('a', 'b')} were"
    )
    lab.require(after == before, "a link that is throttled must wait without doing anything")


@TH.scenario("TH-01", "message_count_limit")
def message_count_limit(lab: Lab) -> None:
    """A policy's message throttle of N dispatches N messages and holds the rest back.

    N+5 messages arrive, and the application keeps each one. The link stops reading after the N-th, without
    polling, and the sender keeps the rest for replay. When the application releases its messages, the others
    arrive in order.
    """
    limit = _share(lab, 10)
    _peers(lab, {"messages": 10})
    lab.hold("b")
    lab.send("a", "b", limit + 5)
    _expect_stopped_at(lab, limit)
    lab.require(_throttled(lab, "policy_messages") == limit, f"the throttle must be full: {lab.holdings('b')}")
    snapshot = lab.snapshot("a")
    lab.require(snapshot["queued"] + snapshot["sent"] >= 5, f"a must keep what b has not read: {snapshot}")
    lab.release("b")
    lab.expect_delivered("a", "b", limit + 5)
    lab.expect_throttles_empty("a", "b")
    lab.settle()


@TH.scenario("TH-02", "byte_limit")
def byte_limit(lab: Lab) -> None:
    """A policy's byte throttle stops reading at the message that would exceed it.

    The application keeps messages that together exceed the limit. The link reads on as bytes are released, and the
    throttle never exceeds its limit. A compressed message takes its size on the wire, which its header declares,
    before its real size is known, so the message that exceeds the limit still passes.
    """
    limit = 4500
    share = _share(lab, limit)
    over = _SIZE_BYTES if lab.way.mode == "compressed" else 0
    _peers(lab, {"size_bytes": limit})
    lab.hold("b")
    lab.send("a", "b", 12, size_bytes=_SIZE_BYTES)
    _expect_stopped_at(lab, (share + over) // _SIZE_BYTES)
    held = _throttled(lab, "policy_size_bytes")
    lab.require(held <= share + over, f"{held} bytes are held of {share}")
    lab.release("b")
    lab.expect_delivered("a", "b", 12)
    highest = max(record["value"] for record in lab.records("b", "throttle", name="policy_size_bytes"))
    most = limit + over * max(lab.way.workers, 1)
    lab.require(highest <= most, f"the throttle must never be above {most}: it was at {highest}")
    lab.expect_throttles_empty("a", "b")
    lab.settle()


@TH.scenario("TH-03", "dispatch_limit")
def dispatch_limit(lab: Lab) -> None:
    """A message that does not fit the dispatch throttle is not read until others are released.

    The throttle compares the size that the header declares: a compressed message that fits is read, even if it
    decompresses to more. The link does not poll meanwhile; a release makes it read on.
    """
    limit = 4500
    _peers(lab, ms_dispatch_throttle_bytes=limit)
    lab.hold("b")
    share = _share(lab, limit)
    for sent in range(1, 13):
        lab.send("a", "b", size_bytes=_SIZE_BYTES)
        lab.wait(0.05 if sent * _SIZE_BYTES <= share else 0.0)
    _expect_stopped_at(lab, share // _SIZE_BYTES + (lab.way.mode == "compressed"))
    lab.release("b")
    lab.expect_delivered("a", "b", 12)
    lab.expect_throttles_empty("a", "b")
    lab.settle()


_STAGES: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    # name of the throttle that is waited for: the policy's throttles, options
    "messages": ({"messages": 2}, {}),
    "bytes": ({"size_bytes": 2500}, {}),
    "dispatch": ({"messages": 100, "size_bytes": 100_000}, {"ms_dispatch_throttle_bytes": 2500}),
}
_ENDS = ("cut", "own mark_down", "its mark_down", "kill")


@TH.scenario(
    "TH-04",
    "release_on_every_fault_point",
    cases={
        **{f"{stage}, {end}": {"stage": stage, "end": end} for stage in _STAGES for end in _ENDS},
        **{
            f"reading, {action.value}": {"action": action} for action in (Action.FAULT, Action.BLOCK, Action.STALL)
        },
        "reading, seq comes again": {"end": "again"},
    },
)
def release_on_every_fault_point(lab: Lab, stage: str = "", end: str = "", action: Action | None = None) -> None:
    """A link that ends while it reads returns exactly what it took from the throttles.

    A link is cut or marked down, or its peer is killed, while a message waits for the first, the second or the
    third throttle; or it faults while it reads a message, or reads a duplicate. Once the application has released
    its messages, every throttle is at zero, and the next messages pass.
    """
    throttle, options = _STAGES[stage or "dispatch"]
    _peers(lab, throttle, **(options if stage else {}))
    lab.exchange(count=1)
    before = lab.delivered("a", "b")
    if stage:
        _fill(lab)
    elif action is not None:
        point = lab.point("MESSAGE", "READ")
        lab.arm("b", point, action, nth=2)
        lab.hold("b")
        lab.send("a", "b", 5, size_bytes=_SIZE_BYTES)
        lab.expect_hit("b", point)
        lab.wait(0.05)
        lab.unblock("b", point)
    if end == "again":
        # The acknowledgement is lost, so that b gets messages that it has.
        lab.cut_at("a", "b", lab.breakpoint("b:ACK", byte=0))
        lab.send("a", "b", 3, size_bytes=_SIZE_BYTES)
        lab.wait_for_dials("a", 2)
    _end(lab, end)
    lab.release("b")
    if "mark_down" in end:
        lab.wait(0.5)  # a lossless peer dials again, and its session is reset
        lab.connect("a", "b")
    elif end == "kill":
        lab.revive("a")
        lab.connect("a", "b")
    else:
        lab.expect_delivered("a", "b", before + (3 if end == "again" else 5))
    lab.expect_throttles_empty("b")
    so_far = lab.delivered("a", "b")
    lab.send("a", "b", 8, size_bytes=_SIZE_BYTES)
    lab.expect_delivered("a", "b", so_far + 8)
    lab.expect_throttles_empty("a", "b")
    lab.settle()


def _fill(lab: Lab) -> None:
    """Have the application of b keep messages until one of a's waits for a throttle."""
    lab.hold("b")
    lab.send("a", "b", 5, size_bytes=_SIZE_BYTES)
    lab.wait(0.1)
    lab.require(lab.delivered("a", "b") < 6, "a message must wait for a throttle")


def _end(lab: Lab, end: str) -> None:
    if end == "cut":
        lab.cut("a", "b")
    elif end == "own mark_down":
        lab.mark_down("b", "a")
    elif end == "its mark_down":
        lab.mark_down("a", "b")
        lab.wait(0.1)
    elif end == "kill":
        lab.kill("a")
        lab.wait(0.1)
    if end in {"its mark_down", "kill"}:
        # b's lossless session would wait for its peer, so b marks it down.
        lab.mark_down("b", "a")


@TH.scenario(
    "TH-05",
    "oversize_single_message",
    priority=2,
    cases={
        "bytes": {"throttle": {"size_bytes": _SIZE_BYTES}},
        "dispatch": {"throttle": {}, "dispatch_bytes": _SIZE_BYTES},
        "both": {"throttle": {"size_bytes": _SIZE_BYTES}, "dispatch_bytes": _SIZE_BYTES},
    },
)
def oversize_single_message(lab: Lab, throttle: dict[str, int], dispatch_bytes: int = 100 << 20) -> None:
    """A message larger than a throttle passes alone.

    It is delivered while the throttle is below its limit; the next message waits until it is released.
    """
    _peers(lab, throttle, ms_dispatch_throttle_bytes=dispatch_bytes)
    lab.hold("b")
    lab.send("a", "b", size_bytes=20 * _SIZE_BYTES)
    lab.expect_delivered("a", "b", 1)
    lab.send("a", "b", 3, size_bytes=_SIZE_BYTES)
    _expect_stopped_at(lab, 1)
    lab.release("b")
    lab.expect_delivered("a", "b", 4)
    lab.send("a", "b", 2, size_bytes=20 * _SIZE_BYTES)
    lab.expect_delivered("a", "b", 6)
    lab.expect_throttles_empty("b")
    lab.settle()


@TH.scenario(
    "TH-06",
    "neighbour_not_starved",
    priority=2,
    cases={"policy throttle": {"policy": True}, "dispatch throttle": {"policy": False}},
)
def neighbour_not_starved(lab: Lab, policy: bool) -> None:  # noqa: FBT001 - a case
    """A full policy throttle stops messages only; keepalives of other peers are answered.

    All peers share the throttle, so another peer's messages wait too, but its keepalive is answered at once. A
    full dispatch throttle stops all reading on its shard: the keepalive is answered once the application releases
    messages. In both cases every link stays open, and every message arrives.
    """
    if policy:
        _peers(lab, {"size_bytes": 3 * _SIZE_BYTES}, clients="ac")
    else:
        _peers(lab, clients="ac", ms_dispatch_throttle_bytes=3 * _SIZE_BYTES)
    lab.hold("b")
    lab.send("a", "b", 10, size_bytes=_SIZE_BYTES)
    lab.wait(0.2)
    lab.require(lab.delivered("a", "b") < 10, "the throttle must be full")
    lab.keepalive("c", "b")
    if policy:
        lab.wait_until(
            lambda: lab.session("c", "b")["keepalive_acked_s"] > 0, "the neighbour's keepalive answered"
        )
    lab.send("c", "b", 5, size_bytes=_SIZE_BYTES)
    lab.wait(0.2)
    lab.release("b")
    lab.wait_until(lambda: lab.session("c", "b")["keepalive_acked_s"] > 0, "the neighbour's keepalive answered")
    lab.expect_delivered("a", "b", 10)
    lab.expect_delivered("c", "b", 5)
    lab.require(lab.dials("c") == 1, "the neighbour's link must have held")
    lab.expect_throttles_empty("b")
    lab.settle()


@TH.scenario(
    "TH-12",
    "waiters_in_order",
    priority=2,
    ways=tuple(way for way in ALL_WAYS if not way.workers and way.mode != "compressed"),
    cases={
        "policy throttle": {"throttle": {"size_bytes": 4500}},
        "dispatch throttle": {"throttle": None, "ms_dispatch_throttle_bytes": 4500},
    },
)
def waiters_in_order(lab: Lab, throttle: dict[str, int] | None, **options: int) -> None:
    """No message overtakes one that waits for a throttle, and a release admits all for which there is room.

    The application keeps a message of 4000 bytes under a limit of 4500. Three peers send one message each, the
    first of 3000 bytes, the others of 100. The small ones would fit, but the large one has waited longer, so all
    three wait. Once the application releases the first message, and keeps the next ones, all three are delivered.
    """
    _peers(lab, throttle, clients="acde", **options)
    lab.hold("b")
    lab.send("a", "b", size_bytes=4000)
    lab.expect_delivered("a", "b", 1)
    for name, size_bytes in ("c", 3000), ("d", 100), ("e", 100):
        lab.send(name, "b", size_bytes=size_bytes)
        lab.wait(0.1)
    early = [name for name in "cde" if lab.delivered(name, "b")]
    lab.require(not early, f"messages of {early} were delivered before one that has waited longer")
    lab.release("b")
    lab.hold("b")
    for name in "cde":
        lab.expect_delivered(name, "b", 1)
    lab.release("b")
    lab.expect_throttles_empty("b")
    lab.settle()


@TH.scenario("TH-13", "limit_raised_at_run_time", priority=2)
def limit_raised_at_run_time(lab: Lab) -> None:
    """A limit that is raised at run time admits what waits, without a release.

    Messages wait for the dispatch throttle of a node whose application keeps each one. The node's
    ms_dispatch_throttle_bytes is raised: as many more are delivered as the new limit has room for.
    """
    _peers(lab, ms_dispatch_throttle_bytes=4500)
    lab.hold("b")
    lab.send("a", "b", 30, size_bytes=_SIZE_BYTES)
    more = lab.way.mode == "compressed"
    _expect_stopped_at(lab, _share(lab, 4500) // _SIZE_BYTES + more)
    lab.configure("b", ms_dispatch_throttle_bytes=20_500)
    _expect_stopped_at(lab, _share(lab, 20_500) // _SIZE_BYTES + more)
    lab.release("b")
    lab.expect_delivered("a", "b", 30)
    lab.expect_throttles_empty("a", "b")
    lab.settle()


@TH.scenario("TH-07", "slow_reader")
def slow_reader(lab: Lab) -> None:
    """Towards a slow reader the written bytes are bounded, and the rest waits in the queue.

    A node sends messages faster than its peer reads them. It hands at most write_ahead_bytes, and a batch, to the
    transport; the rest stays in its queue, where it is counted. A keepalive is not answered meanwhile. When the
    peer reads again every message arrives.
    """
    ahead_bytes, size_bytes, count = 64 << 10, (256 if lab.real_time else 16) << 10, 120
    lab.two("lossless_peer", write_ahead_bytes=ahead_bytes)
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.keepalive("a", "b")
    lab.wait_until(lambda: lab.session("a", "b")["keepalive_acked_s"] > 0, "a keepalive answered")
    acked_s = lab.session("a", "b")["keepalive_acked_s"]
    lab.slow("a", "b", bytes_per_s=100_000.0 if lab.real_time else 10.0)
    lab.send("a", "b", count, size_bytes=size_bytes)
    lab.wait(0.3)
    lab.keepalive("a", "b")
    frames = len(lab.records("a", "frame"))
    lab.wait(0.5 if lab.real_time else 5.0)
    written = len(lab.records("a", "frame")) - frames
    most = 8 if lab.real_time else 2  # there is a kernel in between
    lab.require(written <= most, f"a must not write while its peer does not read, it wrote {written} frames")
    held = lab.holdings("a")
    most_bytes = ahead_bytes + BATCH_BYTES + 2 * size_bytes
    lab.require(held["unwritten_bytes"] <= most_bytes, f"at most {most_bytes} bytes may be ahead: {held}")
    # A queue that is on another shard is counted when it comes back; and compressed, all of it fits.
    if not lab.way.workers and lab.way.mode != "compressed":
        queued = lab.snapshot("a")["queued"]
        lab.require(
            queued >= (10 if lab.real_time else count // 2), f"what waits must be counted, the queue has {queued}"
        )
    lab.require(lab.session("a", "b")["keepalive_acked_s"] == acked_s, "the keepalive cannot have been answered")
    lab.heal()
    lab.expect_delivered("a", "b", count + 1)
    lab.wait_until(lambda: lab.session("a", "b")["keepalive_acked_s"] > acked_s, "the keepalive answered")
    lab.require(lab.dials("a") == 1, "the link must have held")
    lab.settle()


@TH.scenario(
    "TH-08",
    "write_eagain",
    cases={
        "small": {"count": 200, "size_bytes": 2000, "congestion": 20},
        "large": {"count": 6, "size_bytes": 1 << 20, "congestion": 5},
    },
)
def write_eagain(lab: Lab, count: int, size_bytes: int, congestion: int) -> None:
    """Writes that the socket refuses are repeated without losses, in order.

    Most attempts to write find the socket full, on both sides. The queues grow, and every message arrives.
    """
    _peers(lab)
    for name in "ab":
        lab.configure(name, ms_inject_network_congestion=congestion)
    for _ in range(2):
        lab.send("a", "b", count, size_bytes=size_bytes)
        lab.send("b", "a", count)
        lab.wait(0.01)
    lab.expect_delivered("a", "b", 2 * count, within_s=60)
    lab.expect_delivered("b", "a", 2 * count, within_s=60)
    lab.require(lab.dials("a") == 1, "no link may break for that")
    congested = [r for name in "ab" for r in lab.records(name, "inject", option="ms_inject_network_congestion")]
    lab.require(bool(congested), "no write was ever congested")
    lab.settle()


_PREAUTH_WAYS: tuple[Way, ...] = tuple(way for way in ALL_WAYS if not way.workers)


@TH.scenario(
    "TH-09",
    "preauth_memory_cap",
    ways=_PREAUTH_WAYS,
    cases={how: {"how": how} for how in ("huge", "unfinished", "rounds")},
)
def preauth_memory_cap(lab: Lab, how: str) -> None:
    """Unauthenticated peers cost bounded memory for a bounded time.

    Twenty peers announce frames of gigabytes, or frames within the limit whose end they never send, or repeat
    refused authentication attempts without end. Frames above the limit break the link at once; the other links end
    by max_preauth_bytes or by ms_connection_ready_timeout. Meanwhile another peer is served.
    """
    peers = 20
    lab.node("a", "osd.1", "lossless_peer")
    raws = [lab.raw(f"p{number}", f"osd.{100 + number}") for number in range(peers)]
    lab.node("b", "osd.2", "lossless_peer", ms_connection_ready_timeout=1.0 if lab.real_time else 10.0)
    lab.start()
    for raw in raws:
        _overwhelm(lab, raw.dial("b"), how)
    lab.wait(0.2)
    held = lab.holdings("b")
    each_bytes = (128 << 10) + (512 << 10)
    lab.require(held["held_bytes"] <= peers * each_bytes, f"at most {each_bytes} bytes each may be held: {held}")
    if how == "huge":
        lab.require(held["links"] == 0, f"what cannot be must be refused at once: {held}")
    lab.connect("a", "b")
    lab.exchange(count=3)
    lab.wait(1.5 if lab.real_time else 11.0)
    held = lab.holdings("b")
    lab.require((held["links"], held["held_bytes"]) == (1, 0), f"nothing may be left of them: {held}")
    lab.settle()


def _overwhelm(lab: Lab, link: object, how: str) -> None:
    raw: Any = link
    raw.banner()
    if lab.is_v1:
        raw.identify()
        connect = raw.connect_message()
        if how == "rounds":
            for _ in range(100):
                if raw.closed:
                    return
                raw.send(replace(connect, authorizer=bytes(8000)))
            return
        size = 0x7FFFFFFF if how == "huge" else 100_000
        head = connect.encode()[: -len(connect.authorizer)] if connect.authorizer else connect.encode()
        raw.write(head[:-8] + size.to_bytes(4, "little") + head[-4:] + bytes(min(size, 90_000)))
        return
    raw.hello()
    if how == "rounds":
        for _ in range(100):
            if raw.closed:
                return
            raw.send(AuthRequest(method=AuthMethod.NONE, preferred_modes=[1], auth_payload=bytes(8000)))
        return
    size = 0xFFFFFFFF if how == "huge" else 100_000
    raw.write(
        RawFrame(tag=Tag.AUTH_REQUEST, segments=(b"",), lengths=(size,)).preamble() + bytes(min(size, 90_000))
    )


@TH.scenario(
    "TH-10", "accept_errors", priority=2, backends=ON_SOCKETS, only="descriptors of a process", processes=True
)
def accept_errors(lab: Lab) -> None:
    """A listener that runs out of descriptors accepts the waiting peers once it has some.

    A process has reached its limit of open descriptors when two peers dial it: accepting fails again and again.
    Its existing connection goes on meanwhile. Once the limit is raised both are accepted, by their first dial.
    """
    late = ["c1", "c2"]
    for number, name in enumerate(("a", *late)):
        lab.node(name, f"osd.{10 + number}", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start()
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.limit_descriptors("b", limited=True)
    for name in late:
        lab.dial(name, "b")
        lab.send(name, "b")
    lab.wait(1.0)
    accepted = len(lab.records("b", "link", action="accept"))
    lab.require(accepted < 1 + len(late), f"there were no descriptors for all, but {accepted} links were accepted")
    lab.exchange(count=5)
    lab.limit_descriptors("b", limited=False)
    for name in late:
        lab.expect_delivered(name, "b", 1)
        lab.require(
            lab.dials(name) == 1, f"{name} must get in by its first dial, it dialled {lab.dials(name)} times"
        )
    lab.settle()


@TH.scenario(
    "TH-11",
    "markdown_while_throttled",
    priority=2,
    cases={"mark_down": {"stops": False}, "shutdown": {"stops": True}},
)
def markdown_while_throttled(lab: Lab, stops: bool) -> None:  # noqa: FBT001 - a case
    """A session that waits for a throttle can be marked down and returns what it took.

    The application keeps messages until the link waits for a throttle, then marks the session down or shuts its
    messenger down. Neither call waits; once the messages are released every throttle is at zero.
    """
    _peers(lab, {"messages": 4, "size_bytes": 2500})
    _fill(lab)
    if stops:
        lab.stop("b")
        lab.expect_stopped("b", within_s=1.0)
    else:
        lab.mark_down("b", "a")
        lab.expect("b", "registry", 0)
    lab.mark_down("a", "b")
    lab.release("b")
    if not (stops and lab.real_time and lab.way.workers):  # those threads are gone, and their throttles with them
        lab.expect_throttles_empty("b")
    if not stops:
        lab.connect("a", "b")
        lab.exchange(count=2)
    lab.settle()


@TH.scenario("TH-14", "throttle_of_an_osd", priority=2)
def throttle_of_an_osd(lab: Lab) -> None:
    """The messenger of an OSD stops reading at osd_client_message_cap messages of all its clients together.

    A node has the policies of an OSD's public messenger, and an osd_client_message_cap of 10. Its application
    keeps the messages of one client; the eleventh is not read, and neither is the first message of a second
    client. When the application releases its messages, those of both clients arrive.
    """
    limit = _share(lab, 10)
    lab.node("b", "osd.2", "osd public", osd_client_message_cap=10)
    for number, name in enumerate("ac"):
        lab.node(name, f"client.{7 + number}", "librados", listens=False)
    lab.start()
    for name in "ac":
        lab.connect(name, "b")
    lab.hold("b")
    lab.send("a", "b", limit + 2)
    _expect_stopped_at(lab, limit)
    lab.require(_throttled(lab, "osd_client_messages") == limit, f"the throttle must be full: {lab.holdings('b')}")
    if not lab.way.workers:
        lab.send("c", "b")
        lab.wait(0.2)
        lab.require(not lab.delivered("c", "b"), "a message of another client passed the full throttle")
        lab.release("b")
        lab.expect_delivered("c", "b", 1)
    lab.release("b")
    lab.expect_delivered("a", "b", limit + 2)
    lab.expect_throttles_empty("b")
    lab.settle()
