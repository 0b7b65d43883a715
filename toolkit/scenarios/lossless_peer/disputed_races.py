"""LP: races whose outcome differs between implementations; a case for each setting of the rule."""

from messenger.rules import SETTINGS
from messenger.v2.wire import Wait
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import SOON
from toolkit.scenarios.lossless_peer import LP
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS


@LP.scenario(
    "LP-18",
    "one_way_dial_only",
    rules=("race_winner",),
    cases={
        f"only the {able} can dial, it {rule}": {"able": able, "rule": rule}
        for able in ("winner", "loser")
        for rule in SETTINGS["race_winner"]
    },
)
def one_way_dial_only(lab: Lab, able: str, rule: str) -> None:
    """Two peers of which only one can dial get a session, unless race_winner is insists.

    Both have messages and dial, but the dials of one are refused. If those of the loser are, the winner's dial
    opens the session. If those of the winner are, ``race_winner`` decides: a winner that yields takes the loser's
    next dial; one that insists, as Ceph does, answers each dial of the loser with WAIT until its own dials
    succeed.
    """
    longest_s = 0.3 if lab.real_time else 15.0
    lab.two("lossless_peer", ms_max_backoff=longest_s, race_winner=rule)
    winner, loser = lab.race_winner("a", "b")
    unable, other = (loser, winner) if able == "winner" else (winner, loser)
    lab.refuse(unable, other)
    lab.send(winner, loser, count=3)
    lab.send(loser, winner, count=3)
    if able == "loser" and rule == "insists":
        lab.wait(6 * longest_s)
        lab.require(not lab.delivered(loser, winner), "a winner that insists must not take the loser's dial")
        waits = lab.verdicts(winner).count("WAIT")
        lab.require(waits >= 3, f"each dial of the loser must get WAIT, {waits} did")
        lab.refuse(unable, other, refused=False)
    lab.expect_delivered(loser, winner, 3, within_s=4 * longest_s + 5)
    lab.expect_delivered(winner, loser, 3, within_s=4 * longest_s + 5)
    lab.exchange(count=2)
    if able == "loser" and rule == "yields":
        verdicts = lab.verdicts(winner)
        lab.require(bool({"REUSE", "REPLACE"}.intersection(verdicts)), f"the winner must yield: {verdicts}")
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle()


@LP.scenario("LP-29", "race_after_a_race", ways=FEW_V2_WAYS)
def race_after_a_race(lab: Lab) -> None:
    """The winner of a race that is over does not yield in the next one because of the first.

    Two peers race, and the peer whose address is the higher one gets WAIT; the other's dial opens the session.
    Later that link breaks, and one dial of the winner breaks too, when the peer does not wait for it. When the
    peer dials while the winner's next dial has no answer yet, it gets WAIT again: a winner yields only if a dial
    for which the peer waited has failed (``race_winner``).
    """
    lab.node("a", "osd.1", "lossless_peer", **SOON)
    peer = lab.raw("b", "osd.2")  # its address is the higher one
    lab.start()
    lab.dial("a", "b")
    first = peer.accept("a")
    waiting = peer.dial("a")
    waiting.handshake(until=waiting.ident)
    waiting.send(waiting.client_ident())
    waiting.expect(Wait)
    first.handshake()
    lab.expect_state("a", "b", "READY")
    lab.send("a", "b")
    first.hang_up()
    peer.accept("a").hang_up()
    lab.wait_for_dials("a", 3)
    peer.accept("a")
    state = lab.session("a", "b")
    again = peer.dial("a")
    again.handshake(until=again.ident)
    known = {name: state[name] for name in ("client_cookie", "server_cookie", "connect_seq")}
    again.send(again.session_reconnect(**known))
    again.expect(Wait)


_RECONNECTS = 4


def _remembered_global_seq(lab: Lab) -> int:
    """Have b reconnect several times; returns b's global_seq as a remembers it."""
    lab.connect("b", "a")
    for sent in range(1, _RECONNECTS + 1):
        lab.expect_acked("a")
        lab.expect_acked("b")
        lab.cut("a", "b")
        lab.expect_state("a", "b", "STANDBY")
        lab.send("b", "a")
        lab.expect_delivered("b", "a", sent)
    lab.expect_acked("b")
    return int(lab.session("a", "b")["peer_global_seq"])


_DIALLERS = {"both dial": True, "only the new one dials": False}


@LP.scenario(
    "LP-21",
    "peer_restart_during_race",
    rules=("restarted_peer",),
    cases={
        f"{rule}, {name}": {"rule": rule, "both": both}
        for rule in SETTINGS["restarted_peer"]
        for name, both in _DIALLERS.items()
    },
    v1_cases={name: {"rule": "proven", "both": both} for name, both in _DIALLERS.items()},
)
def peer_restart_during_race(lab: Lab, rule: str, both: bool) -> None:  # noqa: FBT001 - a case
    """A restarted peer with a low global_seq connects within the dials that its rule allows.

    A node has messages for a process that has died. The new process at the same address and nonce dials with a
    lower global_seq than the node remembers, while the node may dial too. The messages for the dead process are
    lost, with one event; nothing else is lost. Where only the new process can dial, it connects with its first
    dial if ``restarted_peer`` is proven, with its second at the latest if it is guess, because a session that is
    not open makes way, and if it is stale with the dial whose global_seq reaches the remembered one. On v1
    RETRY_GLOBAL carries the remembered number, and the first dial connects.
    """
    longest_s = 0.2 if lab.real_time else 15.0
    lab.two("lossless_peer_reuse", ms_initial_backoff=0.05, ms_max_backoff=longest_s, restarted_peer=rule)
    remembered = _remembered_global_seq(lab)
    lab.require(remembered >= _RECONNECTS, f"a must remember a high global_seq, it is {remembered}")
    lab.kill("b")
    if not both:
        lab.refuse("a", "b")
    lab.send("a", "b", count=3)
    lab.revive("b")
    dials = lab.dials("b")
    before = lab.delivered("b", "a")
    replies = len(lab.frames("a", "CONNECT_REPLY"))
    lab.send("b", "a", count=3)
    lab.expect_delivered("b", "a", before + 3, within_s=(remembered + 3) * longest_s)
    lab.send("a", "b", count=2)
    lab.expect_delivered("a", "b", 2, within_s=2 * longest_s + 5)
    rounds = lab.dials("b") - dials
    if not both:
        least, most = {"proven": (1, 1), "guess": (1, 2), "stale": (remembered, remembered)}[rule]
        lab.require(least <= rounds <= most, f"by {rule} b gets in with dial {least} to {most}, it took {rounds}")
    if lab.is_v1:
        tags = [frame["fields"]["tag"] for frame in lab.frames("a", "CONNECT_REPLY")[replies:]]
        retries = tags.count("RETRY_GLOBAL")  # once for the number, once for the takeover
        lab.require(retries <= 2, f"a's replies to the new process: {', '.join(tags)}")
    lost = [record["event"] for record in lab.records("a", "event") if record["event"].endswith("reset")]
    lab.require(len(lost) == 1, f"one event must tell a that its messages are gone, these came: {lost}")
    lab.exchange(count=2)
    lab.settle()
