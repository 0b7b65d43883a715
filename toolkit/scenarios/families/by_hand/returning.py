"""LC, LP and LS: how soon a session that lost its link dials again, with a peer that is spoken by hand."""

from typing import Any

from messenger.v1.wire import Tag as V1Tag
from toolkit.scenarios.families.by_hand.common import hang_up, opened
from toolkit.scenarios.families.lc import LC
from toolkit.scenarios.families.lp import LP
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.raw.peer import RawPeer
from toolkit.scenarios.raw.places import CONNECTOR

_SHORT_LINKS = 8
"""So many links may break just after they opened before the next dial waits."""
_TAKEOVERS = 6


def _dial_after_fault_s(lab: Lab, peer: RawPeer, within_s: float) -> tuple[Any, float]:
    """The node's next dial, and how long after the fault before it that came."""
    broke_s = lab.records("a", "fault")[-1].time_s
    link = peer.accept("a", within_s=within_s)
    return link, lab.records("a", "link", action="dial")[-1].time_s - broke_s


@LC.scenario("LC-11", "short_links_brake")
def short_links_brake(lab: Lab) -> None:
    """After eight links in a row that broke just after they opened, the next dial pauses, each time twice as long.

    A peer opens the session and hangs up at once, again and again, as where two processes share an address or a
    message breaks each link that it is replayed on. Eight times the node dials again at once, from the ninth time
    on it pauses for ms_initial_backoff, then for twice that, and so on. A link that stays open for longer than
    ms_initial_backoff ends that: the dial after it comes at once.
    """
    pause_s = 1.0 if lab.real_time else 0.3
    at_once_s = 0.5 * pause_s
    peer, link = opened(lab, CONNECTOR, ms_initial_backoff=pause_s, ms_max_backoff=15.0)
    for broken in range(1, _SHORT_LINKS + 3):
        hang_up(lab, link)
        link, after_s = _dial_after_fault_s(lab, peer, 4 * pause_s + 5.0)
        due_s = pause_s * 2 ** (broken - _SHORT_LINKS - 1)
        on_time = due_s - 0.001 <= after_s < 1.5 * due_s if broken > _SHORT_LINKS else after_s < at_once_s
        lab.require(on_time, f"behind {broken} short links the dial came after {after_s} s")
        link.handshake()
        lab.expect_state("a", "b", "READY")
    lab.wait(1.2 * pause_s)
    hang_up(lab, link)
    _, after_s = _dial_after_fault_s(lab, peer, 2 * pause_s + 5.0)
    lab.require(after_s < at_once_s, f"behind a link that stayed open the dial came after {after_s} s")


@LP.scenario("LP-28", "broken_takeovers_keep_no_step", priority=2)
def broken_takeovers_keep_no_step(lab: Lab) -> None:
    """After a takeover that broke, the pause before the next dial is drawn from the second half of the backoff.

    A peer dials in to resume a session that the node has something to send in, and its link breaks before the
    takeover is answered: on v2 before SESSION_RECONNECT_OK is written, on v1 before the second CONNECT. The node
    dials after half the pause at the earliest and the whole at the latest, not always after the same: two sides
    that take over each other's dials do not do so in step.
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
        _, after_s = _dial_after_fault_s(lab, peer, 2 * pause_s + 5.0)
        pauses.append(after_s)
    slack_s = 0.5 if lab.real_time else 0.05
    drawn = all(pause_s / 2 - 0.001 <= pause < pause_s + slack_s for pause in pauses)
    lab.require(drawn, f"pauses of {pause_s / 2} to {pause_s} s are due, they were {pauses}")
    lab.require(max(pauses) - min(pauses) > pause_s / 20, f"pauses in step: {pauses}")


def _break_takeover(lab: Lab, peer: RawPeer, turn: int) -> None:
    """Have the peer resume the session, ahead of all its attempts before, and break the link before the answer."""
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
