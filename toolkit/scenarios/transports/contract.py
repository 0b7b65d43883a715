"""RD: the same session over other transports."""

from itertools import groupby
from typing import Any

from messenger.outputs import EventKind
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.scenarios.scenario import ON_SOCKETS
from toolkit.scenarios.shared.two_labs import COMPARED, WAYS, app_records, settled, twice
from toolkit.scenarios.transports import RD

_PAIRS: dict[str, dict[str, Any]] = {name: {"pair": PAIRS[name]} for name in ("peers", "reuse", "client", "lossy")}


def _conversation(lab: Lab, pair: Pair) -> None:
    """Exchange messages one at a time, so that their order cannot differ."""
    pair.start(lab)
    lab.connect("a", "b")
    lab.expect_state("b", "a", "READY")
    for number, size in enumerate((0, 1, 100, 70_000), 1):
        for node, peer in ("a", "b"), ("b", "a"):
            lab.send(node, peer, 1, size)
            lab.expect_delivered(node, peer, number)
            settled(lab)
    lab.settle()


def _frames(lab: Lab, node: str) -> list[tuple[object, ...]]:
    """Tags and lengths of the frames that a node wrote, without ACKs and KEEPALIVE2s, and its session's states."""
    written = [r for r in lab.records(node, "frame", direction="tx") if r["tag"] not in {"ACK", "KEEPALIVE2"}]
    states = [state for state, _ in groupby(r["state"] for r in lab.records(node, "state"))]
    return [*((record["tag"], record["length"]) for record in written), *((state,) for state in states)]


@RD.scenario(
    "RD-05",
    "unix_or_inproc",
    priority=2,
    backends=ON_SOCKETS,
    only=COMPARED,
    ways=WAYS,
    cases=_PAIRS,
)
def unix_or_inproc(lab: Lab, pair: Pair) -> None:
    """A session exchanges the same frames over pipes in memory as over TCP.

    Two nodes open a session and exchange messages of several sizes, one at a time. Over both transports each node
    writes frames with the same tags and lengths, acknowledgements apart, its session goes through the same states,
    and its application gets the same events.
    """
    twice(
        lab,
        lambda place: _conversation(place, pair),
        lambda place, node: (_frames(place, node), app_records(place, node)),
    )


@RD.scenario(
    "RD-01",
    "transport_contract",
    priority=2,
    cases={f"{size} {name}": {"size_bytes": size, "pair": PAIRS[name]} for size in (1, 7) for name in PAIRS},
    backends=("sim",),
    only="a transport that answers late and in crumbs has to be made of nothing",
)
def transport_contract(lab: Lab, size_bytes: int, pair: Pair) -> None:
    """Sessions work over any transport that carries a stream of bytes.

    A transport connects late, delivers one byte or seven at a time, and takes written bytes slowly, and a client
    has no address of its own. Session, messages and keepalives work as over any other transport: nothing faults,
    and each side reads the frames that the other one wrote.
    """
    pair.start(lab)
    lab.delay_dial("a", "b", 2.0)
    lab.trickle("a", "b", size_bytes)
    lab.slow("b", "a", 20_000.0)
    lab.connect("a", "b")
    lab.exchange(count=5, size_bytes=500)
    lab.keepalive("a", "b")
    lab.wait_until(lambda: lab.session("a", "b")["keepalive_acked_s"] > 0, "a keepalive answered")
    lab.exchange(count=5, size_bytes=500)
    lab.settle()
    lab.require(lab.faults("a") == lab.faults("b") == [], "nothing may fault")
    lab.require(lab.dials("a") == 1, "one dial does for it")
    for node, peer in ("a", "b"), ("b", "a"):
        written = [record["tag"] for record in lab.records(node, "frame", direction="tx")]
        read = [record["tag"] for record in lab.records(peer, "frame", direction="rx")]
        lab.require(written == read, f"{node} wrote {written}, {peer} read {read}")


@RD.scenario("RD-02", "blocking_connect", priority=3)
def blocking_connect(lab: Lab) -> None:
    """A connection attempt that takes five seconds delays no other connection of its node.

    A node dials a peer that does not answer, over TCP or to introduce queue pairs. Meanwhile it exchanges ten
    messages with another peer in five rounds, a second apart. When the peer answers, its session opens.
    """
    for name, entity in ("a", "osd.1"), ("b", "osd.2"), ("c", "osd.3"):
        lab.node(name, entity, "lossless_peer")
    lab.start()
    lab.connect("a", "c")
    lab.partition("a", "b")
    lab.send("a", "b", 3)
    for _ in range(5):
        lab.exchange("a", "c", count=2)
        lab.wait(1.0)
    lab.require(not lab.events("a", "b", EventKind.CONNECT), "a must still be dialling b")
    lab.require(lab.faults("a") == lab.faults("c") == [], f"links broke: {lab.faults('a')}, {lab.faults('c')}")
    lab.heal()
    lab.expect_delivered("a", "b", 3)
    lab.settle()
