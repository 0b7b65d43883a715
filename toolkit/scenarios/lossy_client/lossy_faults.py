"""LY: a lossy client's session after its link breaks, or after either side marks it down."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.rows import play, rows, v1_rows
from toolkit.scenarios.lossy_client import LY


@LY.scenario("LY-01", "connected_fault_client", cases=rows("CF03"), v1_cases=v1_rows("CF03"))
def connected_fault_client(lab: Lab, row: str, order: str) -> None:
    """A lossy client gets one reset event when its link breaks, and does not dial again.

    Both sides send messages, and the client's link breaks as it writes, or reads, the first. Both connections are
    closed, each with one reset event, and their queued messages are dropped.
    """
    play(lab, row, order)
    lab.expect_no_dial(20.0 if not lab.real_time else 1.0, "a", "b")
    for name in "a", "b":
        lab.require(not lab.snapshot(name)["registry"], f"{name} still knows a session that has ended")


@LY.scenario("LY-02", "connected_fault_server", cases=rows("CF07"), v1_cases=v1_rows("CF07"))
def connected_fault_server(lab: Lab, row: str, order: str) -> None:
    """A stateless server drops the session of a client when its link breaks.

    As LY-01, with the fault on the server's side: one reset event on each side, and no session is registered any
    more.
    """
    play(lab, row, order)
    for name in "a", "b":
        lab.require(not lab.snapshot(name)["registry"], f"{name} still knows a session that has ended")


@LY.scenario("LY-03", "markdown_script_client", cases=rows("CF33"))
def markdown_script_client(lab: Lab, row: str, order: str) -> None:
    """A lossy client marks down, is marked down, and dials again: each is a new connection.

    After its own mark-down there is no event; after the server's there is one reset event. Messages go through
    after each of the three dials.
    """
    play(lab, row, order)


@LY.scenario("LY-04", "markdown_script_server", cases=rows("CF34"))
def markdown_script_server(lab: Lab, row: str, order: str) -> None:
    """A stateless server gets a reset event when the client marks down, and none after its own mark-down.

    After the client's mark_down the server gets one reset event, after its own none. Each dial of the client is
    accepted as a new session.
    """
    play(lab, row, order)
