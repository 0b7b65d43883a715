"""RD: sessions over queue pairs of RDMA devices: introductions, lost packets, and faults of devices."""

from functools import partial
from typing import Any

from messenger.transport.rdma.record import RECORD_BYTES
from toolkit.lab.lab import Lab
from toolkit.scenarios.scenario import OVER_RDMA, QUEUE_PAIRS
from toolkit.scenarios.transports import RD

_scenario = partial(RD.scenario, backends=(OVER_RDMA,), only=QUEUE_PAIRS)
_BOTH_WAYS = (("a", "b"), ("b", "a"))
_SHORT_PAUSES: dict[str, Any] = {"ms_initial_backoff": 0.1, "ms_max_backoff": 0.4}
_FEW_BUFFERS: dict[str, Any] = {
    "rdma_queue_len": 4,
    "ms_async_rdma_send_buffers": 8,
    "ms_async_rdma_receive_buffers": 8,
}
"""Options that give a node buffers for two links."""
_SERVER_ONLY = "stateful_server"


def _count_faults(lab: Lab, node: str) -> int:
    return len(lab.faults(node))


def _details(lab: Lab, node: str) -> list[str]:
    """The reasons, in words, for which links of a node broke and its connection attempts failed."""
    return [str(record["detail"]) for record in lab.records(node, "fault")]


def _send_both_ways(lab: Lab) -> None:
    """Connect client a and server b, and have both send large messages."""
    lab.two("lossless_peer", _SERVER_ONLY, **_SHORT_PAUSES)
    lab.connect("a", "b")
    lab.exchange(count=2)
    for sender, receiver in _BOTH_WAYS:
        lab.send(sender, receiver, 4, 5000)


def _rest(lab: Lab) -> None:
    """Wait until both nodes have nothing unacknowledged."""
    for node in "ab":
        lab.expect_acked(node)


def _require_resumed(lab: Lab, links: int = 2) -> None:
    """Require that one session had that many links, and that neither side lost it."""
    lab.expect_events("a", "b", connect=links)
    lab.expect_events("b", "a", accept=links)
    if not lab.is_v1:
        tags = [record["tag"] for record in lab.records("a", "frame", direction="tx")]
        resumed = tags.count("CLIENT_IDENT"), tags.count("SESSION_RECONNECT")
        lab.require(resumed == (1, links - 1), f"CLIENT_IDENT and SESSION_RECONNECT of a: {resumed}")


@_scenario("RD-03", "rdma_loopback", priority=3)
def rdma_loopback(lab: Lab) -> None:
    """A session over two RDMA devices exchanges messages of all sizes and ends without a fault.

    Messages with 0 to 200 000 bytes cross in both directions, more than the buffers of a link hold. One dial is
    enough, no link breaks, and mark_down at both ends leaves no session and no link.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    sizes = (0, 1, 4096, 70_000, 200_000)
    for count, size in enumerate(sizes, 1):
        for node, peer in _BOTH_WAYS:
            lab.send(node, peer, 1, size)
        for node, peer in _BOTH_WAYS:
            lab.expect_delivered(node, peer, count)
    lab.settle()
    lab.require(lab.dials("a") == 1, f"a dialled {lab.dials('a')} times")
    for node in "ab":
        lab.require(lab.faults(node) == [], f"links of {node} broke: {_details(lab, node)}")
    for node, peer in _BOTH_WAYS:
        lab.mark_down(node, peer)
        lab.wait_for(lambda node=node: lab.holdings(node)["links"] == 0, f"no link of {node}")  # type: ignore[misc]
        lab.require(not any(lab.snapshot(node).values()), f"{node} still holds {lab.snapshot(node)}")
    lab.settle()


@_scenario("RD-04", "rdma_qp_error", priority=3, cases={"connector": {"node": "a"}, "acceptor": {"node": "b"}})
def rdma_qp_error(lab: Lab, node: str) -> None:
    """A queue pair that fails while it writes is a fault of its link, and its buffers are free again.

    The nodes have buffers for two links. Three times a queue pair goes to its error state while messages of
    20 000 bytes are sent, more than the buffers hold. Each time the session resumes on a new queue pair, by one
    dial, and every message arrives.
    """
    lab.two("lossless_peer", _SERVER_ONLY, **_FEW_BUFFERS)
    lab.connect("a", "b")
    peer = "b" if node == "a" else "a"
    for turn in range(1, 4):
        before = _count_faults(lab, "a")
        lab.send(node, peer, 4, 20_000)
        lab.fault(f"qp-error {node} {peer}")
        lab.wait_for(lambda before=before: _count_faults(lab, "a") > before, "a fault at a")  # type: ignore[misc]
        lab.expect_delivered(node, peer, 4 * turn)
        lab.exchange(count=1)
        _rest(lab)
    _require_resumed(lab, links=4)
    lab.require(lab.dials("a") == 4, f"a dialled {lab.dials('a')} times")
    lab.settle()


@_scenario(
    "RD-06",
    "introduction_cut",
    cases={
        "first record lost": {"sender": "a", "size_bytes": 0},
        "first record halved": {"sender": "a", "size_bytes": RECORD_BYTES // 2},
        "answer lost": {"sender": "b", "size_bytes": 0},
        "answer halved": {"sender": "b", "size_bytes": RECORD_BYTES // 2},
        "acknowledgement lost": {"sender": "a", "size_bytes": RECORD_BYTES},
    },
)
def introduction_cut(lab: Lab, sender: str, size_bytes: int) -> None:
    """An introduction that breaks at any of its steps costs one dial, and no buffers of either side.

    The TCP connection on which the queue pairs are introduced is reset: before the connector's record, the
    listener's or the acknowledgement arrives, or in the middle of a record. The node dials again and opens its
    first session; the listener has accepted one link. Both have buffers for two links, and a second reconnection
    works.
    """
    lab.node("a", "osd.1", "lossless_peer", **_SHORT_PAUSES, **_FEW_BUFFERS)
    lab.node("b", "osd.2", "lossless_peer", **_SHORT_PAUSES, **_FEW_BUFFERS)
    lab.start("a", "b")
    cut = lab.cut_after("a", "b", sender, size_bytes)
    lab.send("a", "b", 3)
    lab.expect_cut(cut)
    lab.expect_delivered("a", "b", 3)
    _rest(lab)
    lab.require(lab.dials("a") == 2, f"a dialled {lab.dials('a')} times")
    _require_resumed(lab, links=1)
    lab.fault("qp-error a b")
    lab.exchange(count=1)
    lab.expect_events("a", "b", connect=2)
    lab.settle()


@_scenario("RD-07", "roce_loss", cases={"one way": {"ways": _BOTH_WAYS[:1]}, "both ways": {"ways": _BOTH_WAYS}})
def roce_loss(lab: Lab, ways: tuple[tuple[str, str], ...]) -> None:
    """Lost packets are sent again by the devices; the messengers notice nothing.

    One packet in twenty is lost between the devices, in one direction or in both. Twelve messages of 5000 bytes
    each way, six packets each, arrive in order on the first link.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    for node, peer in ways:
        lab.lose(node, peer, 0.05)
    lab.exchange(count=12, size_bytes=5000)
    lab.settle()
    for node in "ab":
        lab.require(lab.faults(node) == [], f"links of {node} broke: {_details(lab, node)}")
    _require_resumed(lab, links=1)


@_scenario("RD-08", "port_down", cases={"connector": {"node": "a"}, "acceptor": {"node": "b"}})
def port_down(lab: Lab, node: str) -> None:
    """When the port of a device goes down, its links break at once, and the session resumes once it is up.

    Both nodes are sending. The node's fault names the port; while it is down no connection attempt succeeds, and
    messages wait. When it is up again, the session resumes and every message arrives once.
    """
    _send_both_ways(lab)
    peer = "b" if node == "a" else "a"
    lab.fault(f"rdma-down {node}")
    lab.wait_for(lambda: any("went down" in detail for detail in _details(lab, node)), f"a fault at {node}")
    lab.send(node, peer, 2)
    lab.send(peer, node, 2)
    dials = lab.dials("a")
    lab.wait_for_dials("a", dials + 2)
    lab.expect_events("a", "b", connect=1)
    lab.fault(f"rdma-up {node}")
    for sender, receiver in _BOTH_WAYS:
        lab.expect_delivered(sender, receiver, 8)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.expect_event("a", "b", "connect", 2)
    lab.settle()


@_scenario("RD-09", "qp_error_replay", cases={"connector": {"node": "a"}, "acceptor": {"node": "b"}})
def qp_error_replay(lab: Lab, node: str) -> None:
    """After a queue pair error the session replays what the peer has not got, and nothing else.

    Three messages are acknowledged in each direction. Then the receiver's application gets a message whose ack is
    lost, as the queue pair fails while it writes the ack. On the next link every message is delivered exactly
    once, in order, and one SESSION_RECONNECT is enough.
    """
    lab.two("lossless_peer")
    peer = "b" if node == "a" else "a"
    lab.connect("a", "b")
    lab.exchange(count=3)
    _rest(lab)
    lab.on_delivery(peer, "fail_queue_pair", peer=node)
    lab.send(node, peer, 6, 2000)
    lab.expect_delivered(node, peer, 9)
    lab.exchange(count=1)
    _rest(lab)
    for sender, receiver in _BOTH_WAYS:
        count = 10 if sender == node else 4
        tids = [record["tid"] for record in lab.records(receiver, "deliver")]
        lab.require(tids == list(range(1, count + 1)), f"delivered at {receiver}: {tids}")
    lab.require(lab.dials("a") + lab.dials("b") <= 3, f"dials: {lab.dials('a')} of a, {lab.dials('b')} of b")
    for name, other in _BOTH_WAYS:
        lab.expect_no_event(name, other, "remote_reset")
    lab.settle()


@_scenario("RD-10", "qp_error_standby", cases={"connector": {"node": "a"}, "acceptor": {"node": "b"}})
def qp_error_standby(lab: Lab, node: str) -> None:
    """An idle session whose queue pair fails waits in STANDBY, and the next message of either side wakes it.

    Nothing is unacknowledged when the queue pair fails. Neither side dials for a second. Then one of them sends:
    it dials once, and the message arrives in the same session.
    """
    lab.two("lossless_peer")
    peer = "b" if node == "a" else "a"
    lab.connect("a", "b")
    lab.exchange(count=2)
    _rest(lab)
    lab.fault(f"qp-error {node} {peer}")
    lab.expect_state("a", "b", "STANDBY")
    lab.expect_state("b", "a", "STANDBY")
    lab.expect_no_dial(1.0, "a", "b")
    before = lab.dials(node)
    lab.send(node, peer)
    lab.expect_delivered(node, peer, 3)
    lab.require(lab.dials(node) == before + 1, f"{node} dialled {lab.dials(node) - before} times")
    for name, other in _BOTH_WAYS:
        lab.expect_no_event(name, other, "remote_reset")
    lab.settle()


@_scenario("RD-11", "peer_process_killed")
def peer_process_killed(lab: Lab) -> None:
    """When a server's process is killed, the kernel closes its queue pairs, and its client's session is reset.

    The client has sent messages when the process is killed, and sends more. The restarted server does not know the
    session: its client gets one remote_reset, and messages of the new session have seq 1, 2 and so on.
    """
    lab.two("lossless_client", _SERVER_ONLY, "client.7", "mds.0", **_SHORT_PAUSES)
    lab.connect("a", "b")
    lab.exchange(count=5)
    lab.expect_acked("a")
    lab.kill("b")
    lab.wait_for(lambda: _count_faults(lab, "a") > 0, "a fault at a")
    lab.send("a", "b", 3)
    lab.revive("b")
    lab.expect_event("a", "b", "remote_reset")
    lab.expect_state("a", "b", "READY")
    lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 7)
    seqs = [record["seq"] for record in lab.records("b", "deliver")][-2:]
    lab.require(lab.is_v1 or seqs == [1, 2], f"seqs of the new session: {seqs}")
    lab.expect_events("a", "b", connect=2, remote_reset=1)
    lab.settle()


@_scenario("RD-12", "no_fallback_to_tcp", cases={"dialled": {"plain": "b"}, "dialling": {"plain": "a"}})
def no_fallback_to_tcp(lab: Lab, plain: str) -> None:
    """A node over RDMA and one over TCP open no session in either direction, until both use RDMA.

    One of the nodes has ``ms_type = async+posix``. Connection attempts fail and pause as others do; neither side
    falls back to the other's transport, and nothing is delivered. When that node is restarted with RDMA, every
    message arrives.
    """
    for name, entity in ("a", "osd.1"), ("b", "osd.2"):
        other: dict[str, Any] = {"ms_type": "async+posix"} if name == plain else {}
        lab.node(name, entity, "lossless_peer" if name == "a" else _SERVER_ONLY, **_SHORT_PAUSES, **other)
    lab.start("a", "b")
    lab.send("a", "b", 2)
    lab.wait_for_dials("a", 3)
    lab.require(lab.delivered("a", "b") == 0, "a message arrived without RDMA")
    lab.expect_events("a", "b")
    lab.expect_events("b", "a")
    if plain == "b":
        wanted = "is the peer's ms_type async+rdma?"
        lab.require(any(wanted in detail for detail in _details(lab, "a")), f"faults of a: {_details(lab, 'a')}")
    lab.kill(plain)
    lab.revive(plain, ms_type="async+rdma")
    if plain == "a":
        lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 2)
    lab.settle()


@_scenario("RD-13", "receiver_not_ready")
def receiver_not_ready(lab: Lab) -> None:
    """A peer that does not read makes its device answer "receiver not ready"; no link breaks, no byte is lost.

    The receiver's application keeps its messages, up to the limit of its throttle; the sender's messages fill the
    buffers of both devices, and wait. Two seconds later the application releases them, and all thirty messages
    of 10 000 bytes arrive on the same link.
    """
    lab.node("a", "osd.1", "lossless_peer", rdma_queue_len=4)
    lab.node("b", "osd.2", "lossless_peer", rdma_queue_len=4, throttle={"messages": 2})
    lab.start("a", "b")
    lab.connect("a", "b")
    lab.hold("b")
    lab.send("a", "b", 30, 10_000)
    lab.expect_delivered("a", "b", 2)
    lab.wait(2.0)
    lab.require(lab.delivered("a", "b") == 2, f"{lab.delivered('a', 'b')} messages passed the throttle")
    lab.release("b")
    lab.expect_delivered("a", "b", 30)
    for node in "ab":
        lab.require(lab.faults(node) == [], f"links of {node} broke: {_details(lab, node)}")
    _require_resumed(lab, links=1)
    lab.settle()


@_scenario("RD-14", "buffer_size_mismatch")
def buffer_size_mismatch(lab: Lab) -> None:
    """A piece longer than the peer's receive buffers breaks the link; with equal sizes the session resumes.

    The sender's buffers have 8192 bytes, the receiver's 2048. Messages of 500 bytes pass. One of 6000 bytes breaks
    each link that it is sent on, and is delivered to nobody, until the sender's buffers have 2048 bytes, too.
    """
    lab.node("a", "osd.1", "lossless_peer", **_SHORT_PAUSES, ms_async_rdma_buffer_size=8192)
    lab.node("b", "osd.2", _SERVER_ONLY, **_SHORT_PAUSES, ms_async_rdma_buffer_size=2048)
    lab.start("a", "b")
    lab.connect("a", "b")
    lab.exchange(count=2, size_bytes=500)
    _rest(lab)
    before = _count_faults(lab, "a")
    lab.send("a", "b", 1, 6000)
    lab.wait_for(lambda: _count_faults(lab, "a") >= before + 2, "two faults at a")
    lab.require(lab.delivered("a", "b") == 2, "a message longer than the buffers arrived")
    lab.configure("a", ms_async_rdma_buffer_size=2048)
    lab.expect_delivered("a", "b", 3)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@_scenario("RD-15", "packets_do_not_pass")
def packets_do_not_pass(lab: Lab) -> None:
    """Keepalives detect a link whose packets do not pass, and the session resumes once they do.

    All packets between the devices are lost, and introductions wait. A soft-RoCE device repeats a lost packet
    for longer than a minute, so that only the missing answer to a keepalive shows it, after two seconds. When
    packets pass again, the session resumes and each message arrives once.
    """
    lab.two("lossless_peer", **_SHORT_PAUSES)
    lab.connect("a", "b")
    lab.exchange(count=2)
    _rest(lab)
    lab.keep_alive("a", "b", 0.5, 2.0)
    lab.partition("a", "b")
    lab.send("a", "b", 2)
    lab.wait_for(lambda: _count_faults(lab, "a") > 0, "a fault at a", within_s=10.0)
    lab.require(lab.delivered("a", "b") == 2, "a message passed")
    lab.heal()
    lab.expect_delivered("a", "b", 4)
    lab.exchange(count=1)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@_scenario("RD-16", "device_removed", priority=3, cases={"connector": {"node": "a"}, "acceptor": {"node": "b"}})
def device_removed(lab: Lab, node: str) -> None:
    """A device that is removed while both nodes send breaks their links, and they resume when it is back.

    The removal begins with the port: the node's fault names it, and its peer's link is reset. While there is no
    device, connection attempts of either side fail, and messages wait. The kernel gives the new device another
    index; the session resumes on it, and every message arrives once.
    """
    _send_both_ways(lab)
    peer = "b" if node == "a" else "a"
    lab.fault(f"rdma-remove {node}")
    lab.wait_for(lambda: any("went down" in detail for detail in _details(lab, node)), f"a fault at {node}")
    lab.wait_for(lambda: _count_faults(lab, peer) > 0, f"a fault at {peer}")
    lab.send(node, peer, 2)
    lab.send(peer, node, 2)
    lab.wait_for_dials("a", lab.dials("a") + 2)
    if node == "a":
        lab.require(any("no RDMA device" in detail for detail in _details(lab, "a")), f"{_details(lab, 'a')}")
    lab.expect_events("a", "b", connect=1)
    lab.fault(f"rdma-add {node}")
    for sender, receiver in _BOTH_WAYS:
        lab.expect_delivered(sender, receiver, 8)
    _require_resumed(lab)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@_scenario("RD-17", "address_changed", cases={"connector": {"node": "a"}, "acceptor": {"node": "b"}})
def address_changed(lab: Lab, node: str) -> None:
    """When the address (GID) of a device changes, its links break at once and resume with the new address.

    The node's fault names the lost address. Messages that both sides were sending arrive once.
    """
    _send_both_ways(lab)
    lab.fault(f"gid-change {node}")
    lab.wait_for(lambda: any("lost its address" in each for each in _details(lab, node)), f"a fault at {node}")
    for sender, receiver in _BOTH_WAYS:
        lab.expect_delivered(sender, receiver, 6)
    lab.exchange(count=1)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@_scenario("RD-18", "path_mtu_too_small")
def path_mtu_too_small(lab: Lab) -> None:
    """A path that drops full packets stops a link at its first large message; keepalives detect it.

    Packets of more than 600 bytes from one node to the other are lost; those of a full SEND have 1088. The session
    opens and small messages pass. A message of 5000 bytes does not, nor does anything after it, and each link
    ends by its keepalive. When the path is wide again, every message arrives once.
    """
    lab.two("lossless_peer", **_SHORT_PAUSES)
    lab.black_hole("a", "b", 600)
    lab.connect("a", "b")
    lab.exchange(count=2, size_bytes=100)
    lab.keep_alive("a", "b", 0.5, 2.0)
    lab.send("a", "b", 1, 5000)
    lab.send("a", "b", 1, 100)
    lab.wait_for(lambda: _count_faults(lab, "a") > 0, "a fault at a", within_s=10.0)
    lab.require(lab.delivered("a", "b") == 2, "a message passed")
    lab.heal()
    lab.expect_delivered("a", "b", 4)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@_scenario("RD-19", "receiver_not_ready_for_long")
def receiver_not_ready_for_long(lab: Lab) -> None:
    """A sender whose retries are limited gives up on a peer without receive buffers, and the session resumes.

    The peer posts no receive buffer again. The sender's device tries three times (``rdma_rnr_retries``); then the
    link breaks with that reason. The next link has buffers, and every message arrives once.
    """
    lab.two("lossless_peer", **_SHORT_PAUSES, **_FEW_BUFFERS, ms_async_rdma_buffer_size=4096, rdma_rnr_retries=3)
    lab.connect("a", "b")
    lab.exchange(count=2)
    _rest(lab)
    lab.fault("not-ready b a")
    lab.send("a", "b", 12, 10_000)
    lab.wait_for(lambda: any("RNR retry" in detail for detail in _details(lab, "a")), "a fault at a")
    lab.expect_delivered("a", "b", 14)
    lab.exchange(count=1)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@_scenario("RD-20", "retries_exceeded")
def retries_exceeded(lab: Lab) -> None:
    """A device whose retries are limited gives up on lost packets, without keepalives, and the session resumes.

    All packets between the devices are lost. After one repetition (``rdma_retries``) the link breaks with that
    reason. When packets pass again, every message arrives once.
    """
    lab.two("lossless_peer", **_SHORT_PAUSES, rdma_retries=1)
    lab.connect("a", "b")
    lab.exchange(count=2)
    _rest(lab)
    lab.partition("a", "b")
    lab.send("a", "b", 2)
    lab.wait_for(lambda: any("retry" in detail for detail in _details(lab, "a")), "a fault at a", within_s=15.0)
    lab.require(lab.delivered("a", "b") == 2, "a message passed")
    lab.heal()
    lab.expect_delivered("a", "b", 4)
    lab.exchange(count=1)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()
