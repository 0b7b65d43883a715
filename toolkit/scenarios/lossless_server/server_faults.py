"""LS: a stateful server's session after its link breaks or a side marks it down."""

from messenger.errors import LocalError
from messenger.session.policy import POLICIES
from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.rows import play, rows, v1_rows
from toolkit.scenarios.lossless_server import LS

_SERVERS = {name: {"policy": name} for name, policy in POLICIES.items() if policy.server}
"""Policies of servers: towards such peers a node never dials."""


@LS.scenario("LS-01", "accepted_fault_object_identity", cases=rows("CF14"), v1_cases=v1_rows("CF14"))
def accepted_fault_object_identity(lab: Lab, row: str, order: str) -> None:
    """A server's application keeps the same connection when its client reconnects.

    The server's link breaks as it writes or reads a message. The server waits; the client reconnects, and the
    existing connection takes over the new link, with a second accept event.
    """
    play(lab, row, order)
    lab.require(not lab.dials("a"), "a server never dials")


@LS.scenario("LS-02", "reaccept_double_fault", cases=rows("CF15"), v1_cases=v1_rows("CF15"))
def reaccept_double_fault(lab: Lab, row: str, order: str) -> None:
    """A takeover that breaks leaves the session unchanged for the next one.

    The server's link breaks at a message, and the next one as the client reconnects: before SESSION_RECONNECT is
    judged, which closes the link without an event, or after it, when the next link replaces it. The first
    connection stays.
    """
    play(lab, row, order)


@LS.scenario("LS-04", "standby_wake_by_send", cases=rows("CF37", "CF39") | {"TM16": {"row": "", "order": ""}})
def standby_wake_by_send(lab: Lab, row: str, order: str) -> None:
    """A session in STANDBY dials when a message is queued, and learns of the peer's mark-down.

    The peer has marked the session down, and neither side dials. Then a message is sent: the peer answers the
    reconnection with a full reset, the application gets remote_reset, and messages sent after that arrive.
    """
    if row:
        play(lab, row, order)
        return
    lab.two("lossless_peer", "stateful_server")
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.mark_down("b", "a")
    lab.expect_state("a", "b", "STANDBY")
    lab.expect_no_dial(1.0, "a", "b")
    lab.send("a", "b")
    lab.expect_event("a", "b", "remote_reset")
    lab.expect_state("a", "b", "READY")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 2)
    lab.settle()
    lab.expect_events("a", "b", connect=2, remote_reset=1)


@LS.scenario("LS-07", "stateful_server_markdown_script", cases=rows("CF36"))
def stateful_server_markdown_script(lab: Lab, row: str, order: str) -> None:
    """A stateful server keeps its connection when the client opens a new session, and closes it by mark_down.

    The client marks down and dials: the server's connection stays and raises one remote_reset event. The server
    marks down: its connection is closed, and the client, which reconnects by itself, is accepted on a new one.
    """
    play(lab, row, order)


@LS.scenario("LS-14", "server_does_not_dial", cases=_SERVERS)
def server_does_not_dial(lab: Lab, policy: str) -> None:
    """connect() by a server is an error of the application, before any dial, and the peer may still dial.

    The application of a node whose policy towards the peer is a server's asks for a session that does not exist
    yet. It gets an error that names the policy; no link is opened. Once the peer has dialled, the same call
    returns its session, on which the server's messages arrive.
    """
    lab.node("a", "osd.1", "lossless_client" if policy == "stateful_server" else "lossy_client")
    lab.node("b", "osd.2", policy)
    lab.start()
    try:
        lab.dial("b", "a")
    except LocalError as error:
        lab.require(policy in str(error) and "never dials" in str(error), f"the error says {error}")
    else:
        lab.require(condition=False, what="a server was allowed to dial")
    lab.expect_no_dial(0.5, "b")
    lab.connect("a", "b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.send("b", "a", count=2)
    lab.expect_delivered("b", "a", 2)
    lab.settle()
