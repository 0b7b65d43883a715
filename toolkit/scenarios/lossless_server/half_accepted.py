"""LS: links that break before their session is known to the application."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_server import LS

_DELAY_S = 0.2


@LS.scenario(
    "LS-13",
    "fault_before_accept",
    priority=2,
    cases={
        "lossless": {"client": "lossless_client", "server": "stateful_server"},
        "lossy": {"client": "lossy_client", "server": "stateless_server"},
        "peer": {"client": "lossless_peer", "server": "lossless_peer"},
    },
)
def fault_before_accept(lab: Lab, client: str, server: str) -> None:
    """A session whose handshake times out before its accept event ends without any event.

    The acceptor pauses before it decides, and again before it announces a new session to its application, so that
    its handshake times out in the second pause. The application gets no event of that session, and none is left.
    The client dials again, a lossy one for a new session, and once the acceptor is quick enough its application
    gets one accept event.
    """
    lab.node("a", "client.1" if client != "lossless_peer" else "osd.1", client, listens=client == "lossless_peer")
    slow = {"ms_inject_internal_delays": _DELAY_S, "ms_connection_ready_timeout": 1.5 * _DELAY_S}
    lab.node("b", "osd.2", server, **slow)
    lab.start()
    lab.dial("a", "b")
    lab.wait_until(lambda: "READY_TIMEOUT" in lab.faults("b"), "a handshake that times out at b")
    lab.require(bool(lab.records("b", "decision")), "b has decided on the dial")
    lab.expect_events("b", "a")
    left = lab.snapshot("b")["registry"]
    lab.require(left == 0, f"{left} sessions are left")
    lab.configure("b", ms_inject_internal_delays=0.0)
    if client == "lossy_client":
        lab.mark_down("a", "b")  # on v1 its session ends with this fault
    lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 2)
    lab.expect_events("b", "a", accept=1)
    lab.settle()
