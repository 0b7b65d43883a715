"""LS: links that break before their session is known to the application."""

from typing import Any

from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_server import LS


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
    delay_s = 1.0 if lab.real_time else 0.2
    slow: dict[str, Any] = {"ms_inject_internal_delays": delay_s, "ms_connection_ready_timeout": 1.5 * delay_s}
    lab.node("b", "osd.2", server, **slow)
    lab.start()
    lab.dial("a", "b")
    lab.wait_until(lambda: _timed_out_late(lab), "a handshake that times out behind b's decision")
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


def _timed_out_late(lab: Lab) -> bool:
    """True if b's last link that timed out is one on which it had decided."""
    late = [record["link"] for record in lab.records("b", "fault", reason="READY_TIMEOUT")]
    return bool(late) and any(record["link"] == late[-1] for record in lab.records("b", "decision"))
