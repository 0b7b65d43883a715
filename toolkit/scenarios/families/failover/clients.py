"""LY and LC: what becomes of a client's session when its link breaks, or somebody marks it down."""

from toolkit.scenarios.families.failover.rows import play, rows, v1_rows
from toolkit.scenarios.families.lc import LC
from toolkit.scenarios.families.ly import LY
from toolkit.scenarios.lab import Lab


@LY.scenario("LY-01", "connected_fault_client", cases=rows("CF03"), v1_cases=v1_rows("CF03"))
def connected_fault_client(lab: Lab, row: str, order: str) -> None:
    """A lossy client whose open link breaks is told so once, and does not dial again.

    Messages go both ways and the client's side breaks as it writes, or reads, the first. Both connections are
    closed, each with one reset event, and what was queued is gone.
    """
    play(lab, row, order)
    lab.expect_no_dial(20.0 if not lab.real_time else 1.0, "a", "b")
    for name in "a", "b":
        lab.require(not lab.snapshot(name)["registry"], f"{name} still knows a session that has ended")


@LY.scenario("LY-02", "connected_fault_server", cases=rows("CF07"), v1_cases=v1_rows("CF07"))
def connected_fault_server(lab: Lab, row: str, order: str) -> None:
    """A stateless server whose open link breaks forgets the client.

    As LY-01, with the fault on the server's side: one reset event each, and nothing is registered any more.
    """
    play(lab, row, order)
    for name in "a", "b":
        lab.require(not lab.snapshot(name)["registry"], f"{name} still knows a session that has ended")


@LY.scenario("LY-03", "markdown_script_client", cases=rows("CF33"))
def markdown_script_client(lab: Lab, row: str, order: str) -> None:
    """A lossy client marks down, is marked down, and dials again: each is a new connection.

    After its own mark-down it hears nothing; after the server's it is told by one reset. Messages go through
    after each of the three dials.
    """
    play(lab, row, order)


@LY.scenario("LY-04", "markdown_script_server", cases=rows("CF34"))
def markdown_script_server(lab: Lab, row: str, order: str) -> None:
    """A stateless server is told of a client that leaves, and hears nothing of one that it drops.

    The client marks down: one reset. The server marks down: none. Each dial of the client is accepted afresh.
    """
    play(lab, row, order)


@LC.scenario(
    "LC-01",
    "connected_fault",
    cases=rows("CF09") | {"TM05": {"row": "", "order": ""}},
    v1_cases=v1_rows("CF09") | {"TM05": {"row": "", "order": ""}},
)
def connected_fault(lab: Lab, row: str, order: str) -> None:
    """A lossless client survives a fault in mid-traffic by one reconnection.

    Messages go both ways and the client's side breaks as it writes, or reads, the first one: it dials once more,
    resumes the session, and both messages arrive once. The same, with exactly one reconnection on the wire, when
    the server breaks as it handles a message of a peer.
    """
    if row:
        play(lab, row, order)
        return
    lab.two("lossless_peer", "stateful_server")
    lab.connect("a", "b")
    lab.arm("b", "MSG READ" if lab.is_v1 else "MESSAGE READ")
    lab.send("a", "b")
    lab.expect_delivered("b", "a", 1)
    lab.settle()
    lab.expect_events("a", "b", connect=2)
    lab.expect_events("b", "a", accept=2)
    tags = [record["tag"] for record in lab.history.of("frame") if record["direction"] == "tx"]
    if not lab.is_v1:
        resumed = tags.count("SESSION_RECONNECT"), tags.count("SESSION_RECONNECT_OK")
        lab.require(resumed == (1, 1), f"one SESSION_RECONNECT and one OK are to be seen, there were {resumed}")
    lab.require(lab.dials("a") == 2, f"a dialled {lab.dials('a')} times")


@LC.scenario("LC-02", "control_frame_fault", cases=rows("CF10"), v1_cases=v1_rows("CF10"))
def control_frame_fault(lab: Lab, row: str, order: str) -> None:
    """A fault at an ack, a keepalive or its answer costs one reconnection, and nothing else.

    Messages and keepalives take turns, both ways; the client's side breaks at each of the small frames, read or
    written.
    """
    play(lab, row, order)


@LC.scenario("LC-03", "double_fault_reconnect", cases=rows("CF11"), v1_cases=v1_rows("CF11"))
def double_fault_reconnect(lab: Lab, row: str, order: str) -> None:
    """A reconnection that breaks itself is tried again.

    The link breaks at a message, and the next one at SESSION_RECONNECT or its answer (on v1, at any point): three
    dials, one session, two connect events, every message once.
    """
    play(lab, row, order)


@LC.scenario("LC-05", "markdown_script", cases=rows("CF35"))
def markdown_script(lab: Lab, row: str, order: str) -> None:
    """A lossless client begins anew after its own mark-down, and is reset by the server's.

    Its own mark-down ends the connection silently, the next dial is another. The server's mark-down makes it
    reconnect by itself: the server knows no session, a full reset follows, with one remote_reset event, and the
    connection stays the same.
    """
    play(lab, row, order)


_ACKS = {
    # name: whose side breaks, and at which point
    "ack not written": ("b", "ACK WRITE"),
    "ack not read": ("a", "ACK READ"),
}


@LC.scenario("LC-06", "delivered_but_unacked", cases={name: {"place": place} for name, place in _ACKS.items()})
def delivered_but_unacked(lab: Lab, place: tuple[str, str]) -> None:
    """What was delivered, but not acknowledged, is not sent again.

    The link breaks when the server has a message and the client does not know it. The client learns it as they
    reconnect, and drops the message instead of replaying it: the second link carries only what comes after it.
    """
    node, point = place
    lab.two("lossless_client", "stateful_server", "client.1")
    lab.connect("a", "b")
    lab.arm(node, point)
    lab.send("a", "b")
    lab.expect_hit(node, point)
    lab.expect_delivered("b", "a", 1)
    # A client with nothing unsent but something unacknowledged dials by itself.
    lab.expect_event("a", "b", "connect", 2)
    lab.send("a", "b", count=2)
    lab.expect_delivered("b", "a", 3)
    lab.settle()
    written = [frame["fields"]["seq"] for frame in lab.messages("a")]
    lab.require(written == [1, 2, 3], f"a must have written each message once, it wrote {written}")
    lab.require(lab.delivered("b", "a") == 3, "each message must have been delivered once")
