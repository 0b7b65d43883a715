"""The tour: reconnect, standby and session reset, as ``msgrlab demo`` shows them."""

from collections.abc import Sequence

from toolkit.faults.tap import Breakpoint
from toolkit.lab.lab import Lab
from toolkit.scenarios.tour import TOUR


def _two_peers(lab: Lab) -> None:
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a", "b")
    lab.connect("a", "b")


@TOUR.scenario(
    "reconnect", "reconnect", default_cuts=("a:MESSAGE:10:20",), v1_cuts=("a:MSG:10:20",), processes=True
)
def reconnect(lab: Lab, cuts: Sequence[Breakpoint]) -> None:
    """Two lossless peers resume their session after the link is cut inside a frame.

    Both send messages while the link is cut in the middle of a frame. They dial again, exchange their in_seqs by
    SESSION_RECONNECT and SESSION_RECONNECT_OK, and replay the messages above the other side's in_seq: every
    message arrives once and in order.
    """
    _two_peers(lab)
    for cut in cuts:
        lab.cut_at("a", "b", cut)
    lab.send("a", "b", count=20)
    lab.send("b", "a", count=20)
    for cut in cuts:
        lab.expect_cut(cut)
    lab.expect_delivered("a", "b", 20)
    lab.expect_delivered("b", "a", 20)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.expect_no_event("b", "a", "remote_reset")
    lab.send("a", "b", count=5)
    lab.send("b", "a", count=5)
    lab.expect_delivered("a", "b", 25)
    lab.expect_delivered("b", "a", 25)
    lab.settle()


@TOUR.scenario("standby", "standby", processes=True)
def standby(lab: Lab) -> None:
    """Two idle lossless peers stand by when their link breaks, and resume the session when one of them sends.

    The link breaks while every message is acknowledged. Both sessions go to STANDBY and do not dial. When one side
    sends a message it dials, resumes the session with its sequence numbers, and raises one connect event.
    """
    _two_peers(lab)
    lab.send("a", "b", count=3)
    lab.send("b", "a", count=3)
    lab.expect_delivered("a", "b", 3)
    lab.expect_delivered("b", "a", 3)
    lab.expect_acked("a")
    lab.expect_acked("b")
    lab.cut("a", "b")
    lab.expect_state("a", "b", "STANDBY")
    lab.expect_state("b", "a", "STANDBY")
    lab.expect_no_dial(1.0, "a", "b")
    lab.send("b", "a", count=2)
    lab.expect_delivered("b", "a", 5)
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 5)
    lab.expect_event("b", "a", "connect", 1)
    lab.expect_no_event("a", "b", "remote_reset")
    lab.settle()


@TOUR.scenario("session-reset", "session-reset", processes=True)
def session_reset(lab: Lab) -> None:
    """A server that restarted without its sessions resets the client's session, and traffic goes on in a new one.

    A stateful server is killed and restarts at the same address without its sessions. It answers the client's
    SESSION_RECONNECT by SESSION_RESET: the client drops the messages queued for the old session, raises
    remote_reset, and opens a new session, in which both sides send.
    """
    lab.node("client", "client.7", "lossless_client", listens=False)
    lab.node("server", "mds.0", "stateful_server")
    lab.start("client", "server")
    lab.connect("client", "server")
    lab.send("client", "server", count=5)
    lab.expect_delivered("client", "server", 5)
    lab.send("server", "client", count=5)
    lab.expect_delivered("server", "client", 5)
    lab.expect_acked("client")
    lab.kill("server")
    lab.send("client", "server", count=3)
    lab.wait(0.3)
    lab.revive("server")
    lab.expect_event("client", "server", "remote_reset", 1)
    lab.expect_state("client", "server", "READY")
    lab.send("client", "server", count=4)
    lab.expect_delivered("client", "server", 9)
    lab.send("server", "client", count=4)
    lab.expect_delivered("server", "client", 9)
    lab.expect_no_event("server", "client", "remote_reset")
    lab.settle()
