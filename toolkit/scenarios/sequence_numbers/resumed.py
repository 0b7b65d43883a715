"""SQ: the messages of a session that is resumed."""

from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR
from toolkit.scenarios.sequence_numbers import SQ
from toolkit.scenarios.shared.by_hand import acknowledge, asked, hang_up, messages, opened, resume


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


@SQ.scenario(
    "SQ-20",
    "in_seq_below_acknowledged",
    priority=2,
    cases={f"{lost} less": {"lost": lost} for lost in (1, 2, 4)}
    | {f"{lost} less, then all": {"lost": lost, "then_all": True} for lost in (1, 2)},
)
def in_seq_below_acknowledged(lab: Lab, lost: int, then_all: bool = False) -> None:  # noqa: FBT001, FBT002 - a case
    """A peer that announces less than it acknowledged gets the remaining messages without a gap.

    The peer has acknowledged four of seven messages. It resumes the session with an in_seq that is one, two or
    four less, since it has lost a part of its state. The messages that it acknowledged are gone; the other three
    get the numbers that follow its in_seq, and so does a new message, so that the peer skips nothing. If that link
    breaks at its first message, and the peer then announces three more, none of the three is sent again.
    """
    peer, link = opened(lab, CONNECTOR)
    lab.send("a", "b", 7)
    lab.require([message.seq for message in messages(link)] == [*range(1, 8)], "seven messages did not come")
    acknowledge(lab, link, 4)
    lab.expect("a", "sent", 3)
    hang_up(lab, link)
    in_seq = 4 - lost
    message_out = lab.point("MESSAGE", "WRITE")
    if then_all:
        lab.arm("a", message_out)
    link = peer.accept("a")
    resume(lab, link, asked(lab, link), in_seq)
    if then_all:
        lab.expect_hit("a", message_out)
        link = peer.accept("a")
        resume(lab, link, asked(lab, link), in_seq + 3)
    lab.send("a", "b")
    received = [(message.seq, message.tid) for message in messages(link)]
    wanted = [(in_seq + number, 4 + number) for number in range(4 if then_all else 1, 5)]
    lab.require(received == wanted, f"{received} came, {wanted} were due")
    acknowledge(lab, link, in_seq + 4)
    lab.expect_acked("a")
