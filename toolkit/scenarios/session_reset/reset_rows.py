"""RS: messages that a reset drops, and the side that decides it."""

from toolkit.lab.lab import Lab
from toolkit.lab.ways import V2_WAYS
from toolkit.scenarios.crimson.rows import play, rows
from toolkit.scenarios.session_reset import RS


def _seqs(lab: Lab, node: str) -> list[int]:
    """The seqs of the messages that were delivered to a node, in order."""
    return [record["seq"] for record in lab.records(node, "deliver")]


def _begin_anew(lab: Lab, node: str, peer: str, point: str, *, sends: str) -> None:
    """Have ``node`` mark its session down and dial again, while a message is held at ``point`` of ``peer``.

    Two messages of ``node`` have arrived; the next one must have seq 1.

    Args:
        lab: a lab with two nodes that have exchanged two messages each way.
        node: the node that starts a new session.
        peer: the node that keeps its session.
        point: point of the peer at which the message is held.
        sends: the sender of that message.
    """
    lab.arm(peer, point, "BLOCK")
    lab.send(sends, peer if sends == node else node)
    lab.expect_hit(peer, point)
    lab.mark_down(node, peer)
    lab.dial(node, peer)
    lab.expect_state(node, peer, "READY")
    lab.send(node, peer)
    lab.expect_delivered(node, peer, 3)
    lab.unblock(peer)
    lab.settle()
    seqs = _seqs(lab, peer)
    lab.require(seqs == [1, 2, 1], f"{peer}'s messages must be counted anew, their seqs were {seqs}")


@RS.scenario("RS-02", "partial_reset", cases=rows("CF26", "CF28"), ways=V2_WAYS)
def partial_reset(lab: Lab, row: str, order: str) -> None:
    """A SESSION_RESET that is not full leads to a new CLIENT_IDENT without losses.

    The peer resumes a session that this side, its client, does not have yet, because it has not read SERVER_IDENT.
    After one SESSION_RESET that is not full, the peer sends CLIENT_IDENT on the same link: no reset event is
    raised, and every queued message arrives.
    """
    play(lab, row, order)
    resets = [frame["fields"]["full"] for frame in lab.frames("a", "SESSION_RESET")]
    lab.require(resets == [False], f"a must have written one SESSION_RESET that is not full, it wrote {resets}")
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, peer, "remote_reset")
        lab.expect_no_event(node, peer, "reset")


@RS.scenario(
    "RS-03",
    "no_resetcheck",
    cases=rows("CF40")
    | {
        "answer queued": {"row": "", "order": "answer"},
        "message unread": {"row": "", "order": "message"},
    },
)
def no_resetcheck(lab: Lab, row: str, order: str) -> None:
    """Without resetcheck a peer's new session replaces the old one without a remote_reset event.

    A peer marks its session down and dials again. The other side keeps its connection and gets an accept event,
    and no other; it counts the peer's messages from 1 again. Messages that it has queued go to the new session;
    messages of the old one that it has not read are lost without an event.
    """
    if row:
        play(lab, row, order)
        return
    lab.two("lossless_peer")
    lab.connect("b", "a")
    lab.exchange(count=2)
    lab.expect_acked("a")
    lost = order == "message"
    tag = "MSG" if lab.is_v1 else "MESSAGE"
    point = f"{tag} READ" if lost else f"{tag} WRITE"
    _begin_anew(lab, "b", "a", point, sends="b" if lost else "a")
    lab.expect_events("a", "b", accept=2)
    wanted = 2 if lost else 3
    lab.require(
        lab.delivered("a", "b") == wanted, f"{wanted} messages were to arrive at b, {lab.delivered('a', 'b')} did"
    )


@RS.scenario(
    "RS-04", "client_new_cookie", cases=rows("CF36", "CF38") | {"answer queued": {"row": "", "order": ""}}
)
def client_new_cookie(lab: Lab, row: str, order: str) -> None:
    """A client that opens a new session resets the one at the server.

    The client marks down and dials again, with another cookie (on v1, with connect_seq 0). The server keeps its
    connection; its application gets one remote_reset, messages queued for the old session are dropped, and the
    client's messages are counted from 1 again.
    """
    if row:
        play(lab, row, order)
        return
    lab.two("lossless_client", "stateful_server", "client.1", a_listens=True)
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("b")
    point = "MSG WRITE" if lab.is_v1 else "MESSAGE WRITE"
    _begin_anew(lab, "a", "b", point, sends="b")
    lab.expect_events("b", "a", accept=2, remote_reset=1)
    lab.require(lab.delivered("b", "a") == 2, "what b had queued for the old session must not reach the new one")
