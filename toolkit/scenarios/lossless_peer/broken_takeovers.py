"""LP: pauses of a session whose takeover broke, with a raw peer."""

from messenger.v1.wire import Tag as V1Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR
from toolkit.node.raw.peer import RawPeer
from toolkit.scenarios.lossless_peer import LP
from toolkit.scenarios.shared.by_hand import hang_up, opened
from toolkit.scenarios.shared.redial_delay import dial_after_fault_s

_TAKEOVERS = 6


@LP.scenario("LP-28", "broken_takeovers_keep_no_step", priority=2)
def broken_takeovers_keep_no_step(lab: Lab) -> None:
    """After a takeover that broke, the pause before the next dial is drawn from the second half of the backoff.

    A peer dials in to resume a session in which the node has a message to send, and its link breaks before the
    takeover is answered: on v2 before SESSION_RECONNECT_OK is written, on v1 before the second CONNECT. The node
    dials after a random part of the pause, between half of it and the whole, so that two sides that take over each
    other's dials do not repeat it in step.
    """
    pause_s = 1.0
    backoff = {"ms_initial_backoff": pause_s, "ms_max_backoff": pause_s}
    peer, link = opened(lab, CONNECTOR, policy="lossless_peer", **backoff)
    lab.send("a", "b")
    hang_up(lab, link)
    peer.accept("a")
    pauses = []
    for turn in range(1, _TAKEOVERS + 1):
        _break_takeover(lab, peer, turn)
        _, after_s = dial_after_fault_s(lab, peer, 2 * pause_s + 5.0)
        pauses.append(after_s)
    slack_s = 2.0 if lab.real_time else 0.05
    drawn = all(pause_s / 2 - 0.001 <= pause < pause_s + slack_s for pause in pauses)
    lab.require(drawn, f"pauses of {pause_s / 2} to {pause_s} s are due, they were {pauses}")
    lab.require(max(pauses) - min(pauses) > pause_s / 20, f"pauses in step: {pauses}")


def _break_takeover(lab: Lab, peer: RawPeer, turn: int) -> None:
    """Have the peer resume the session with a higher connect_seq, and break the link before the answer."""
    faults = len(lab.faults("a"))
    link = peer.dial("a")
    if lab.is_v1:
        link.handshake(until=link.connect)
        reply = link.converse(connect_seq=10 * turn)
        lab.require(reply.tag is V1Tag.RETRY_GLOBAL, f"{reply} came where the session is to be taken over")
        link.hang_up()
    else:
        lab.arm("a", "SESSION_RECONNECT_OK WRITE")
        first = peer.links[0]
        link.client_cookie, link.server_cookie = first.client_cookie, first.server_cookie
        link.handshake(until=link.ident)
        link.send(link.session_reconnect(connect_seq=10 * turn))
        link.expect_closed()
    lab.expect_broken("a", faults + 1)
