"""V1: replies to a CONNECT that finds a session, and links of one peer that open together."""

from messenger.v1.wire import Connect, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import SOON
from toolkit.lab.ways import V1_WAYS
from toolkit.node.raw.peer import RawPeer
from toolkit.node.raw.v1 import RawV1Link
from toolkit.scenarios.protocol_v1 import V1
from toolkit.scenarios.shared.by_hand import hang_up

_RETRY_GLOBAL, _RETRY_SESSION, _RESET, _WAIT, _OPEN = (
    (Tag.RETRY_GLOBAL, 0),
    Tag.RETRY_SESSION,
    (Tag.RESETSESSION, 0),
    (Tag.WAIT, 0),
    Tag.SEQ,
)


def _by_seq(state: str, *, lower: bool, resetcheck: bool) -> dict[int, tuple[Tag, int] | Tag]:
    """The expected replies by the connect_seq of the peer's CONNECT, after docs/protocol.md §3.4."""
    race = _RETRY_GLOBAL if lower else _WAIT
    ahead = _RESET if resetcheck else _RETRY_GLOBAL
    table: dict[str, dict[int, tuple[Tag, int] | Tag]] = {
        "none": {0: (_OPEN, 1), 3: _RESET},
        "closed": {0: (_OPEN, 1), 3: _RESET},
        "connecting": {0: race, 3: ahead},
        "wait": {0: race, 3: ahead},
        "standby": {0: _RETRY_GLOBAL if resetcheck else (_RETRY_SESSION, 1), 3: ahead},
        "open": {0: _RETRY_GLOBAL, 1: (_RETRY_SESSION, 2), 2: _RETRY_GLOBAL, 9: _RETRY_GLOBAL},
        "standby again": {0: _RETRY_GLOBAL, 1: (_RETRY_SESSION, 2), 2: _RETRY_GLOBAL},
        "connecting again": {0: _RETRY_GLOBAL, 1: (_RETRY_SESSION, 3), 2: race, 3: _RETRY_GLOBAL},
        "replacing": {0: _RETRY_GLOBAL, 1: _RETRY_GLOBAL, 2: _RETRY_GLOBAL, 3: _RETRY_GLOBAL},
    }
    return table[state]


STATES = (
    "none",
    "closed",
    "connecting",
    "wait",
    "standby",
    "open",
    "standby again",
    "connecting again",
    "replacing",
)
MATRIX = {
    f"{state} {seq}{' lower' if lower else ' higher'}{' resetcheck' if resetcheck else ''}": {
        "state": state,
        "seq": seq,
        "lower": lower,
        "resetcheck": resetcheck,
    }
    for state in STATES
    for lower in (True, False)
    for resetcheck in (True, False)
    for seq in _by_seq(state, lower=lower, resetcheck=resetcheck)
}


@V1.scenario("V1-10", "race_matrix", ways=V1_WAYS, cases=MATRIX)
def race_matrix(lab: Lab, state: str, seq: int, lower: bool, resetcheck: bool) -> None:  # noqa: FBT001 - a case
    """CONNECT gets the reply that the session's state, its connect_seq and the addresses require.

    A node's session with a peer is in one of these states: none, marked down, dialling for the first time or
    again, waiting after WAIT, in STANDBY before or after it was open, open, or being taken over. The peer dials
    with a connect_seq, with the lower or the higher address, and the node's policy has resetcheck or not. The
    reply is RETRY_GLOBAL if the peer may take over, RETRY_SESSION with the connect_seq to exceed, RESETSESSION,
    WAIT, or SEQ, which opens the session.
    """
    peer = _pair(lab, "lossless_peer_reuse" if resetcheck else "lossless_peer", lower=lower)
    _bring(lab, peer, state)
    link = peer.dial("a")
    link.handshake(until=link.connect)
    reply = link.converse(connect_seq=seq, global_seq=100)
    wanted = _by_seq(state, lower=lower, resetcheck=resetcheck)[seq]
    lab.require((reply.tag, reply.connect_seq) == wanted, f"{wanted} expected, {reply} came")
    lab.require(not link.closed, "the link is closed")


LOSSY = {
    "registered": {"policy": "stateless_registered_server", "reset": 1},
    "not registered": {"policy": "stateless_server", "reset": 0},
}


@V1.scenario("V1-16", "accept_race_lost_registration", priority=2, ways=V1_WAYS, cases=LOSSY)
def accept_race_lost_registration(lab: Lab, policy: str, reset: int) -> None:
    """Two links of one peer that open at the same moment leave one registered session.

    Two links of a lossy client reach a server together, each one step behind the other. If lossy clients are
    registered, the second link ends the first session with a reset event; if not, both stay open. If the
    application marks the session down while a third link is opening, that one opens a new session.
    """
    peer = _pair(lab, policy, lower=True)
    one, two = peer.dial("a"), peer.dial("a")
    for link in (one, two):
        link.handshake(until=link.connect)
    for link in (one, two):
        link.converse(connect_seq=0, global_seq=50)
    for link in (one, two):
        link.seq()
    lab.wait(0.1)
    lab.require(one.closed is bool(reset), "the first link")
    lab.require(not two.closed, "the second link is closed")
    lab.expect("a", "registry", reset)
    lab.expect_events("a", "b", accept=2, reset=reset)
    third = peer.dial("a")
    third.handshake(until=third.connect)
    lab.mark_down("a", "b")
    third.converse(connect_seq=0, global_seq=60)
    third.seq()
    lab.wait(0.1)
    lab.expect("a", "registry", reset)
    lab.require(not third.closed, "the third link is closed")


def _pair(lab: Lab, policy: str, *, lower: bool) -> RawPeer:
    """Start node ``a``, and raw peer ``b`` with the lower or the higher address, as described first or second."""
    peer = lab.raw("b", "osd.2") if lower else None
    lab.node("a", "osd.1", policy, **(SOON | {"ms_max_backoff": 9.0}))
    peer = peer or lab.raw("b", "osd.2")
    lab.start()
    return peer


def _bring(lab: Lab, peer: RawPeer, state: str) -> None:
    """Bring a session of the node's with the peer into that state."""
    if state == "none":
        return
    if state in {"open", "standby again", "connecting again", "replacing", "closed"}:
        link = peer.dial("a").handshake()
        lab.expect_state("a", "b", "READY")
        if state == "closed":
            lab.mark_down("a", "b")
        elif state == "replacing":
            other = peer.dial("a")
            other.handshake(until=other.connect)
            lab.require(other.converse(connect_seq=5, global_seq=50).tag is Tag.RETRY_GLOBAL, "it takes over")
        elif state == "standby again":
            hang_up(lab, link)
            lab.expect_state("a", "b", "STANDBY")
        elif state == "connecting again":
            lab.send("a", "b")
            lab.wait(0.05)
            hang_up(lab, link)
            _asking(peer)
        return
    lab.dial("a", "b")
    if state == "standby":
        link = peer.accept("a")
        hang_up(lab, link)
        lab.expect_state("a", "b", "STANDBY")
        return
    lab.send("a", "b")
    link = _asking(peer)
    if state == "wait":
        connect = link.expect(Connect)
        link.send(link.reply_to(connect, Tag.WAIT))
        lab.expect_state("a", "b", "WAIT")


def _asking(peer: RawPeer) -> RawV1Link:
    """Accept the node's dial up to its CONNECT, and leave that without an answer."""
    link: RawV1Link = peer.accept("a")
    link.handshake(until=link.connect)
    return link
