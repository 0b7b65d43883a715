"""LP-01 to LP-16: two peers that dial each other, after crimson's failover suite."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.model import Order
from toolkit.scenarios.crimson.rows import HOW_OFTEN, ONE_ORDER, play, rows, v1_rows
from toolkit.scenarios.lossless_peer import LP

_ORDERS = {f"a {order}": {"order": order.value} for order in (Order.LOWER, Order.HIGHER)}
_CUSTOM = {"TM06": {"row": "", "order": ""}}
_SETTLE_S = 0.05
"""Seconds in which a dial reaches the point where it is blocked."""


def _two_peers(lab: Lab, order: str, policy: str = "lossless_peer") -> None:
    """Start nodes a and b, which may dial each other; a has the lower or the higher address."""
    names = ("a", "b") if order == Order.LOWER else ("b", "a")
    for name in names:  # addresses go up in this order
        lab.node(name, {"a": "osd.2", "b": "osd.4"}[name], policy)
    lab.start(*names)


def _ready_times(lab: Lab, node: str) -> int:
    return len([record for record in lab.records(node, "state") if record["state"] == "READY"])


@LP.scenario("LP-01", "simple_connect_race", cases=_ORDERS)
def simple_connect_race(lab: Lab, order: str) -> None:
    """Two peers that send CLIENT_IDENT at the same time end up with one session.

    Both dial, are blocked before CLIENT_IDENT, and are released together. The dial from the lower address wins,
    the other peer waits for it; each gets the other's message once.
    """
    _two_peers(lab, order, "lossless_peer_reuse")
    point = "CONNECT WRITE" if lab.is_v1 else "CLIENT_IDENT WRITE"
    nth = 2 if lab.is_v1 else 1
    for node, peer in ("a", "b"), ("b", "a"):
        lab.arm(node, point, "BLOCK", nth)
        lab.dial(node, peer)
        lab.send(node, peer)
    for node in "a", "b":
        lab.expect_hit(node, point)
    for node in "a", "b":
        lab.unblock(node, point)
    lab.expect_delivered("b", "a", 1)
    lab.expect_delivered("a", "b", 1)
    lab.settle()
    lower, higher = ("a", "b") if order == Order.LOWER else ("b", "a")
    lab.expect_events(lower, higher, connect=1)
    lab.expect_events(higher, lower, accept=1)
    for node in "a", "b":
        held = lab.snapshot(node)
        lab.require(
            (held["registry"], held["links"]) == (1, 1), f"{node} must have one session and link, has {held}"
        )
        lab.require(_ready_times(lab, node) == 1, f"{node}'s session must have opened once")


@LP.scenario("LP-02", "connect_race_acceptor_wins", cases=rows("CF25", "CF21"), v1_cases=v1_rows("CF25", "CF21"))
def connect_race_acceptor_wins(lab: Lab, row: str, order: str) -> None:
    """In a race the incoming dial replaces the node's own blocked one if the peer's address is lower.

    The node's dial is blocked at each point up to CLIENT_IDENT while the peer's dial is accepted: the session that
    was dialling takes over the peer's link. The blocked dial has no effect once it is released.
    """
    play(lab, row, order)


@LP.scenario("LP-03", "connect_race_acceptor_loses", cases=rows("CF24"), v1_cases=v1_rows("CF24"))
def connect_race_acceptor_loses(lab: Lab, row: str, order: str) -> None:
    """In a race the node's own dial wins over the peer's blocked one if the node's address is lower.

    The peer's dial is blocked at each point up to CLIENT_IDENT, and is closed without an event when it is
    released: the session is already open on the other link.
    """
    play(lab, row, order)


@LP.scenario("LP-04", "reconnect_race_acceptor_wins", cases=rows("CF23"), v1_cases=v1_rows("CF23"))
def reconnect_race_acceptor_wins(lab: Lab, row: str, order: str) -> None:
    """The peer's reconnection replaces the node's own blocked one.

    As LP-02, for a session whose link broke: the node's reconnection is blocked at each point up to
    SESSION_RECONNECT, and the same connection accepts the peer's.
    """
    play(lab, row, order)


@LP.scenario(
    "LP-05", "reconnect_race_acceptor_loses", cases=rows("CF22") | _CUSTOM, v1_cases=v1_rows("CF22") | _CUSTOM
)
def reconnect_race_acceptor_loses(lab: Lab, row: str, order: str) -> None:
    """The node's reconnection succeeds while the peer's is blocked.

    As LP-03, for a session whose link broke. Also both at once: each side is blocked before it resumes the
    session, and both are released together: one of them resumes it, once.
    """
    if row:
        play(lab, row, order)
        return
    _two_peers(lab, Order.LOWER)
    lab.connect("a", "b")
    lab.exchange(count=1)
    point = "CONNECT WRITE" if lab.is_v1 else "SESSION_RECONNECT WRITE"
    for node in "a", "b":
        lab.arm(node, point, "BLOCK")
    lab.arm("b", "MSG READ" if lab.is_v1 else "MESSAGE READ")
    lab.send("a", "b")
    lab.expect_hit("a", point)
    lab.send("b", "a")
    lab.expect_hit("b", point)
    for node in "a", "b":
        lab.unblock(node, point)
    lab.expect_delivered("b", "a", 2)
    lab.expect_delivered("a", "b", 2)
    lab.settle()
    for node in "a", "b":
        held = lab.snapshot(node)
        lab.require(
            (held["registry"], held["links"]) == (1, 1), f"{node} must have one session and link, has {held}"
        )
    if not lab.is_v1:  # there connect_seq decides, which only the side that was open has raised
        lab.expect_events("a", "b", connect=2)
        lab.expect_events("b", "a", accept=2)
        resumed = [len(lab.frames(node, "SESSION_RECONNECT_OK")) for node in ("a", "b")]
        lab.require(resumed == [0, 1], f"b must resume the session, once; OKs of a and b: {resumed}")


@LP.scenario("LP-06", "connect_vs_reconnect_lose", cases=rows("CF26"), v1_cases=v1_rows("CF26"))
def connect_vs_reconnect_lose(lab: Lab, row: str, order: str) -> None:
    """The peer that wrote a lost SERVER_IDENT reconnects, and its session opens.

    SERVER_IDENT to this side is lost, its second CLIENT_IDENT is blocked, and the peer reconnects. This side has
    no open session to resume and answers with a SESSION_RESET that is not full; the peer sends CLIENT_IDENT and is
    accepted.
    """
    play(lab, row, order)


@LP.scenario("LP-07", "connect_vs_reconnect_win", cases=rows("CF27"), v1_cases=v1_rows("CF27"))
def connect_vs_reconnect_win(lab: Lab, row: str, order: str) -> None:
    """A second dial succeeds while the peer's reconnection is blocked.

    As LP-06, but the peer is blocked at SESSION_RECONNECT: this side's second dial is accepted, and the peer's
    dial is closed once it is released.
    """
    play(lab, row, order)


@LP.scenario("LP-08", "stale_connect", cases=rows("CF28"), v1_cases=v1_rows("CF28"))
def stale_connect(lab: Lab, row: str, order: str) -> None:
    """A superseded dial that continues late changes nothing.

    The stream ends right behind SERVER_IDENT, and its reader is held there. The peer dials and is accepted; then
    the first dial goes on, finds itself superseded, and ends without an event.
    """
    play(lab, row, order)


@LP.scenario("LP-09", "stale_reconnect", cases=rows("CF29"), v1_cases=v1_rows("CF29"))
def stale_reconnect(lab: Lab, row: str, order: str) -> None:
    """A superseded reconnection that continues late changes nothing.

    As LP-08, with SESSION_RECONNECT_OK on the second link.
    """
    play(lab, row, order)


@LP.scenario("LP-10", "stale_accept", cases=rows("CF30"), v1_cases=v1_rows("CF30"))
def stale_accept(lab: Lab, row: str, order: str) -> None:
    """An incoming dial that a newer one superseded is closed without an event.

    The stream ends right behind CLIENT_IDENT, and its reader is held there; the peer dials again and is accepted.
    """
    play(lab, row, order)


@LP.scenario(
    "LP-11",
    "stale_establishing",
    cases=rows("CF31"),
    v1_cases=v1_rows("CF31"),
    sim_cases=dict.fromkeys(v1_rows("CF31"), ONE_ORDER),
)
def stale_establishing(lab: Lab, row: str, order: str) -> None:
    """A peer resumes the session whose SERVER_IDENT was the last frame of its link.

    The stream ends right behind SERVER_IDENT, and its writer is held there. The peer dials again: the same
    connection is accepted a second time, on the new link.
    """
    play(lab, row, order)


@LP.scenario(
    "LP-12",
    "stale_reaccept",
    cases=rows("CF32", "CF32+"),
    v1_cases=v1_rows("CF32", "CF32+"),
    sim_cases=dict.fromkeys(rows("CF32") | v1_rows("CF32"), HOW_OFTEN),
)
def stale_reaccept(lab: Lab, row: str, order: str) -> None:
    """A held takeover makes other dials wait, and goes on with the next one.

    The stream ends right behind SESSION_RECONNECT_OK, and its writer is held there. The peer dials again and gets
    RETRY_GLOBAL while the takeover lasts: it is released at once, or after longer than a pause between dials.
    """
    play(lab, row, order)


_EARLY = {
    # case: where the own dial is held up, and where on v1
    "socket": ("SOCKET_CONNECTING", "SOCKET_CONNECTING"),
    "banner": ("BANNER_WRITE", "BANNER_WRITE"),
    "banner read": ("BANNER_READ", "BANNER_READ"),
    "hello": ("HELLO WRITE", "IDENTIFY WRITE"),
    "auth": ("AUTH_REQUEST WRITE", "CONNECT WRITE"),
    "auth more": ("AUTH_REPLY_MORE READ", "CONNECT_REPLY READ"),
    "signature": ("AUTH_SIGNATURE WRITE", "CONNECT WRITE"),
}


@LP.scenario("LP-13", "reuse_in_banner_phase", cases={name: {"points": points} for name, points in _EARLY.items()})
def reuse_in_banner_phase(lab: Lab, points: tuple[str, str]) -> None:
    """A session whose dial is held at banner, HELLO or authentication is taken over and opens once.

    The node's own dial is blocked at one of these points, and the peer's dial wins. There is no session to resume,
    and frames that the abandoned dial still reads do not open the session again.
    """
    _two_peers(lab, Order.HIGHER, "lossless_peer_reuse")
    point = points[1] if lab.is_v1 else points[0]
    lab.arm("a", point, "BLOCK")
    lab.dial("a", "b")
    lab.send("a", "b")
    lab.expect_hit("a", point)
    lab.dial("b", "a")
    lab.send("b", "a")
    lab.expect_delivered("b", "a", 1)
    lab.expect_delivered("a", "b", 1)
    lab.unblock("a")
    lab.wait(1.0)
    lab.settle()
    lab.expect_events("a", "b", accept=1)
    lab.expect_events("b", "a", connect=1)
    lab.require(_ready_times(lab, "a") == 1, "a's session must have opened once")
    lab.require(lab.dials("a") == 1, "a must not have dialled again")
    for node in "a", "b":
        lab.require(not lab.frames(node, "SESSION_RECONNECT"), f"there was nothing for {node} to resume")


@LP.scenario("LP-14", "server_ident_lost_then_other_side_dials", cases=_ORDERS)
def server_ident_lost_then_other_side_dials(lab: Lab, order: str) -> None:
    """The side that sent a lost SERVER_IDENT can be the one that dials.

    The link breaks instead of SERVER_IDENT being written, and its writer has a message for the other side: it
    dials before the other side dials again. The message arrives once, and nothing else does.
    """
    _two_peers(lab, order)
    point = "CONNECT_REPLY WRITE" if lab.is_v1 else "SERVER_IDENT WRITE"
    lab.arm("b", point, nth=2 if lab.is_v1 else 1)
    lab.dial("a", "b")
    lab.expect_hit("b", point)
    lab.send("b", "a")
    lab.expect_delivered("b", "a", 1)
    lab.settle()
    lab.require(lab.dials("b") == 1, f"b must have dialled once, it did {lab.dials('b')} times")
    lab.require(lab.delivered("a", "b") == 0, "nothing was sent to b")
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_state(node, peer, "READY")
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.exchange(count=2)


@LP.scenario("LP-15", "peer_fault_roles_swap", cases=rows("CF19", "CF20"), v1_cases=v1_rows("CF19", "CF20"))
def peer_fault_roles_swap(lab: Lab, row: str, order: str) -> None:
    """After a broken link the peer that has something to send dials.

    The peer that dialled first breaks the link. With a message to send it reconnects; with none it goes to
    STANDBY, and the other peer, whose message was not read, dials and is accepted by the existing session.
    """
    play(lab, row, order)


@LP.scenario("LP-16", "peer_markdown_scripts", cases=rows("CF37", "CF38", "CF39", "CF40"))
def peer_markdown_scripts(lab: Lab, row: str, order: str) -> None:
    """Peers mark down as connector and as acceptor, with and without resetcheck.

    The peer that marks down and dials has a new connection; the other keeps its own, and raises remote_reset only
    if its policy has resetcheck. A session that its peer marked down stays in STANDBY until it has a message to
    send, and is then reset.
    """
    play(lab, row, order)
