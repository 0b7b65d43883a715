"""LC: a lossless client's session after its link breaks, or after either side marks it down."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.rows import play, rows, v1_rows
from toolkit.scenarios.lossless_client import LC


@LC.scenario(
    "LC-01",
    "connected_fault",
    cases=rows("CF09") | {"TM05": {"row": "", "order": ""}},
    v1_cases=v1_rows("CF09") | {"TM05": {"row": "", "order": ""}},
)
def connected_fault(lab: Lab, row: str, order: str) -> None:
    """A lossless client survives a fault in mid-traffic by one reconnection.

    Both sides send messages, and the client's link breaks as it writes, or reads, the first one: it dials once
    more, resumes the session, and both messages arrive once. The same holds, with exactly one SESSION_RECONNECT on
    the wire, if the server's link breaks as it handles a message.
    """
    if row:
        play(lab, row, order)
        return
    lab.two("lossless_peer", "stateful_server")
    lab.connect("a", "b")
    lab.arm("b", "MSG READ" if lab.is_v1 else "MESSAGE READ")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
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
    """A fault at an ack, a keepalive or its answer costs one reconnection and no message.

    Messages and keepalives alternate in both directions; the client's link breaks as it writes or reads one of the
    acks, keepalives or answers.
    """
    play(lab, row, order)


@LC.scenario("LC-03", "double_fault_reconnect", cases=rows("CF11"), v1_cases=v1_rows("CF11"))
def double_fault_reconnect(lab: Lab, row: str, order: str) -> None:
    """A reconnection that breaks is repeated.

    The link breaks at a message, and the next one at SESSION_RECONNECT or its answer (on v1, at any point of the
    handshake): three dials, one session, two connect events, every message once.
    """
    play(lab, row, order)


@LC.scenario("LC-05", "markdown_script", cases=rows("CF35"))
def markdown_script(lab: Lab, row: str, order: str) -> None:
    """A lossless client opens a new session after its own mark-down, and gets a reset after the server's.

    Its own mark_down ends the connection without an event, and the next dial opens another one. After the server's
    mark_down the client reconnects by itself: the server has no such session and answers with a full reset, the
    client raises one remote_reset event and keeps its connection.
    """
    play(lab, row, order)


_ACKS = {
    # name: whose side breaks, and at which point
    "ack not written": ("b", "ACK WRITE"),
    "ack not read": ("a", "ACK READ"),
}


@LC.scenario("LC-06", "delivered_but_unacked", cases={name: {"place": place} for name, place in _ACKS.items()})
def delivered_but_unacked(lab: Lab, place: tuple[str, str]) -> None:
    """After a reconnect, delivered but unacknowledged messages are not replayed.

    The link breaks after the server has delivered a message and before the client has read its ack. The server
    announces its in_seq in the reconnect, and the client drops that message instead of replaying it: the second
    link carries only the messages after it.
    """
    node, point = place
    lab.two("lossless_client", "stateful_server", "client.1")
    lab.connect("a", "b")
    lab.arm(node, point)
    lab.send("a", "b")
    lab.expect_hit(node, point)
    lab.expect_delivered("a", "b", 1)
    # A client with nothing unsent but something unacknowledged dials by itself.
    lab.expect_event("a", "b", "connect", 2)
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 3)
    lab.settle()
    written = [frame["fields"]["seq"] for frame in lab.messages("a")]
    lab.require(written == [1, 2, 3], f"a must have written each message once, it wrote {written}")
    lab.require(lab.delivered("a", "b") == 3, "each message must have been delivered once")
