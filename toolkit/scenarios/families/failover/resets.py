"""RS-02 to RS-04 and SQ-07: what a session keeps, and what it drops, when it is resumed or begins anew."""

from toolkit.scenarios.families.failover.rows import play, rows
from toolkit.scenarios.families.rs import RS
from toolkit.scenarios.families.sq import SQ
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.ways import V2_WAYS


def _seqs(lab: Lab, node: str) -> list[int]:
    """The numbers of the messages that were delivered to a node, in order."""
    return [record["seq"] for record in lab.records(node, "deliver")]


def _begin_anew(lab: Lab, who: str, peer: str, point: str, *, sends: str) -> None:
    """``who`` ends its session and dials again, while at ``peer`` a message is held at ``point``.

    Two messages of it have arrived; the one it sends then must be counted from 1 again.

    Args:
        lab: two nodes that have exchanged two messages each way.
        who: begins anew.
        peer: keeps its session.
        point: at the peer, where a message is held meanwhile.
        sends: whose that message is.
    """
    lab.arm(peer, point, "BLOCK")
    lab.send(sends, peer if sends == who else who)
    lab.expect_hit(peer, point)
    lab.mark_down(who, peer)
    lab.dial(who, peer)
    lab.expect_state(who, peer, "READY")
    lab.send(who, peer)
    lab.expect_delivered(peer, who, 3)
    lab.unblock(peer)
    lab.settle()
    seqs = _seqs(lab, peer)
    lab.require(seqs == [1, 2, 1], f"{peer}'s messages must be counted anew, their seqs were {seqs}")


@RS.scenario("RS-02", "partial_reset", cases=rows("CF26", "CF28"), ways=V2_WAYS)
def partial_reset(lab: Lab, row: str, order: str) -> None:
    """A reset that is not full asks for another CLIENT_IDENT, and costs nothing.

    The peer would resume a session of which this side, its client, has never seen the SERVER_IDENT. Told so by one
    SESSION_RESET that is not full, it identifies itself on the same link: nobody hears of a reset, and everything
    that was queued arrives.
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
    """Without resetcheck, a peer that begins anew is taken for the old one, and nobody is told what is lost.

    A peer marks its session down and dials again. The other side's connection stays and hears of an accept, of
    nothing else; its messages are counted from 1 again. What it had queued goes to the new session; what it had
    not read of the old one is lost without an event: such is this policy.
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
        lab.delivered("b", "a") == wanted, f"{wanted} messages were to arrive at b, {lab.delivered('b', 'a')} did"
    )


@RS.scenario(
    "RS-04", "client_new_cookie", cases=rows("CF36", "CF38") | {"answer queued": {"row": "", "order": ""}}
)
def client_new_cookie(lab: Lab, row: str, order: str) -> None:
    """A client that begins anew resets the session that the server has of it.

    It marks down and dials again, with another cookie (on v1, with connect_seq 0). The server's connection stays;
    its application is told once by remote_reset, what was queued for the old session is dropped, and the client's
    messages are counted from 1 again.
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
    lab.require(lab.delivered("a", "b") == 2, "what b had queued for the old session must not reach the new one")


@SQ.scenario("SQ-07", "reconnect_seq_both_ways", cases={f"{n} of 4 read": {"read": n} for n in range(4)})
def reconnect_seq_both_ways(lab: Lab, read: int) -> None:
    """As they reconnect, each side learns what the other has, and sends the rest, in order.

    Two peers send each other four messages. One breaks the link when it has read some of them, or none; neither
    knows for sure what arrived. They tell each other their in_seq, and each sends what is above the other's.
    """
    tag = "MSG" if lab.is_v1 else "MESSAGE"
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.arm("a", f"{tag} READ", nth=read + 1)
    lab.send("a", "b", count=4)
    lab.send("b", "a", count=4)
    lab.expect_hit("a", f"{tag} READ")
    lab.expect_delivered("a", "b", 4)
    lab.expect_delivered("b", "a", 4)
    lab.settle()
    for node, peer in ("a", "b"), ("b", "a"):
        _judge_replay(lab, node, peer)
    told = _told(lab, "a")
    lab.require(told == read, f"a had read {read} messages, it said {told}")


def _told(lab: Lab, node: str) -> int:
    """The in_seq that a node told on the link that resumed the session."""
    for tag, name in (("SESSION_RECONNECT", "msg_seq"), ("SESSION_RECONNECT_OK", "msg_seq")):
        for frame in lab.frames(node, tag):
            return int(frame["fields"][name])
    return int(lab.frames(node, "SEQ")[-1]["fields"]["seq"])


def _judge_replay(lab: Lab, node: str, peer: str) -> None:
    """What a node wrote on its last link follows what its peer said to have, without a gap."""
    frames = lab.messages(node)
    last = frames[-1]["link"]
    seqs = [frame["fields"]["seq"] for frame in frames if frame["link"] == last]
    opened_on = {frame["link"] for frame in frames}
    told = _told(lab, peer)
    wanted = list(range(told + 1, 5))
    resent = seqs if len(opened_on) > 1 or told == 0 else []
    lab.require(
        resent == wanted, f"{peer} said to have {told}: {node} was to send {wanted} again, it sent {resent}"
    )
