"""SQ: the messages of a session that is resumed."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.sequence_numbers import SQ


@SQ.scenario("SQ-07", "reconnect_seq_both_ways", cases={f"{n} of 4 read": {"read": n} for n in range(4)})
def reconnect_seq_both_ways(lab: Lab, read: int) -> None:
    """After a reconnect each side replays what the other has not received, in order.

    Two peers send each other four messages, and one breaks the link after it has read 0 to 3 of them. Both
    announce their in_seqs as they reconnect, and each side replays the messages above the other's in_seq.
    """
    tag = "MSG" if lab.is_v1 else "MESSAGE"
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.arm("a", f"{tag} READ", nth=read + 1)
    lab.send("a", "b", count=4)
    lab.send("b", "a", count=4)
    lab.expect_hit("a", f"{tag} READ")
    lab.expect_delivered("b", "a", 4)
    lab.expect_delivered("a", "b", 4)
    lab.settle()
    for node, peer in ("a", "b"), ("b", "a"):
        _judge_replay(lab, node, peer)
    in_seq = _resumed_in_seq(lab, "a")
    lab.require(in_seq == read, f"a had read {read} messages, it announced {in_seq}")


def _resumed_in_seq(lab: Lab, node: str) -> int:
    """The in_seq that a node announced on the link that resumed the session."""
    for tag, name in (("SESSION_RECONNECT", "msg_seq"), ("SESSION_RECONNECT_OK", "msg_seq")):
        for frame in lab.frames(node, tag):
            return int(frame["fields"][name])
    return int(lab.frames(node, "SEQ")[-1]["fields"]["seq"])


def _judge_replay(lab: Lab, node: str, peer: str) -> None:
    """Require that the messages on a node's last link follow its peer's in_seq without a gap."""
    frames = lab.messages(node)
    last = frames[-1]["link"]
    seqs = [frame["fields"]["seq"] for frame in frames if frame["link"] == last]
    opened_on = {frame["link"] for frame in frames}
    in_seq = _resumed_in_seq(lab, peer)
    wanted = list(range(in_seq + 1, 5))
    resent = seqs if len(opened_on) > 1 or in_seq == 0 else []
    lab.require(
        resent == wanted, f"{peer} announced {in_seq}: {node} was to send {wanted} again, it sent {resent}"
    )
