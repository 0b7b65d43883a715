"""LP-26: a peer that dials from two addresses while it is dialled."""

from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, stage
from toolkit.scenarios.lossless_peer import LP
from toolkit.scenarios.shared.by_hand import messages


@LP.scenario(
    "LP-26", "three_dials", priority=2, cases={"in turn": {"crossed": False}, "crossed": {"crossed": True}}
)
def three_dials(lab: Lab, *, crossed: bool) -> None:
    """Three dials between two peers leave one session on one link.

    A node dials a peer, which has the lower address and dials it twice meanwhile, as a peer with two addresses
    would: one dial after the other, or with the older one blocked until the younger one is through. The younger
    dial, with the higher global_seq, carries the session in both cases; the node abandons its own, and neither
    side dials again.
    """
    peer = stage(lab, CONNECTOR, policy="lossless_peer")
    own = peer.accept("a")
    own.handshake(until=own.connect if lab.is_v1 else own.ident)
    older, younger = peer.dial("a"), peer.dial("a")
    older.global_seq, younger.global_seq = 2, 3
    if crossed:
        older.handshake(until=older.connect if lab.is_v1 else older.ident)
    else:
        older.handshake()
    younger.handshake()
    if crossed:
        older.hang_up()
    own.hang_up()
    lab.expect("a", "links", 1)
    lab.expect("a", "registry", 1)
    lab.expect_state("a", "b", "READY")
    younger.send_messages(1)
    lab.wait_until(lambda: lab.tids("a")[-1:] == [1], "a message on the younger dial")
    lab.send("a", "b")
    lab.require([message.tid for message in messages(younger)] == [1], "the session is not on the younger dial")
    lab.require(older.closed or crossed, "the older dial's link is still open")
    peer.expect_no_dial(0.5)
