"""LP: races whose outcome implementations dispute; a case for each setting of the rule."""

from messenger.rules import SETTINGS
from toolkit.scenarios.families.lp import LP
from toolkit.scenarios.lab import Lab


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
    """Two peers of which only one can reach the other get a session, unless the winner of their race insists.

    Both have messages and dial, but the dials of one are refused. If the loser's are, nothing is lost but them. If
    the winner's are, the rule decides: a winner that yields takes the loser's next dial; one that insists, as
    Ceph does, tells the loser to WAIT again and again, until its own dials get through.
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
        lab.require(not lab.delivered(winner, loser), "a winner that insists must not take the loser's dial")
        waits = lab.verdicts(winner).count("WAIT")
        lab.require(waits >= 3, f"the loser must be told to wait at each of its dials, it was {waits} times")
        lab.refuse(unable, other, refused=False)
    lab.expect_delivered(winner, loser, 3, within_s=4 * longest_s + 5)
    lab.expect_delivered(loser, winner, 3, within_s=4 * longest_s + 5)
    lab.exchange(count=2)
    if able == "loser" and rule == "yields":
        verdicts = lab.verdicts(winner)
        lab.require(bool({"REUSE", "REPLACE"}.intersection(verdicts)), f"the winner must yield: {verdicts}")
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle()


_RECONNECTS = 4


def _remembered_global_seq(lab: Lab) -> int:
    """Let b reconnect several times: what a then remembers of its global_seq."""
    lab.connect("b", "a")
    for sent in range(1, _RECONNECTS + 1):
        lab.expect_acked("a")
        lab.expect_acked("b")
        lab.cut("a", "b")
        lab.expect_state("a", "b", "STANDBY")
        lab.send("b", "a")
        lab.expect_delivered("a", "b", sent)
    lab.expect_acked("b")
    return int(lab.session("a", "b")["peer_global_seq"])


@LP.scenario(
    "LP-21",
    "peer_restart_during_race",
    rules=("restarted_peer",),
    cases={
        f"{rule}, {'both dial' if both else 'only the new one dials'}": {"rule": rule, "both": both}
        for rule in SETTINGS["restarted_peer"]
        for both in (True, False)
    },
)
def peer_restart_during_race(lab: Lab, rule: str, both: bool) -> None:  # noqa: FBT001 - a case
    """A peer that has restarted at the same address gets in, although its global_seq has begun anew.

    One side has messages for a process that has died. The new process at the same address and nonce dials with a
    low global_seq, where a higher one is remembered, while the other may be dialling too. Messages for the dead
    process are gone and the application is told so by one event; nothing else is lost. How many dials that
    costs is the rule's business: by ``proven`` the first is taken, by ``stale`` it is dropped until the numbers
    have caught up (or the other side gets through), by ``guess`` a session that is not open makes way by a
    reset.
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
    before = lab.delivered("a", "b")
    lab.send("b", "a", count=3)
    lab.expect_delivered("a", "b", before + 3, within_s=(remembered + 3) * longest_s)
    lab.send("a", "b", count=2)
    lab.expect_delivered("b", "a", 2, within_s=2 * longest_s + 5)
    rounds = lab.dials("b") - dials
    if not both and not lab.is_v1:
        bound = remembered + 1 if rule == "stale" else 2
        lab.require(rounds <= bound, f"by {rule} b must get in within {bound} dials, it took {rounds}")
        lab.require(rule != "stale" or rounds >= 3, f"outdated attempts must be dropped, b needed {rounds} dials")
    lost = [record["event"] for record in lab.records("a", "event") if record["event"].endswith("reset")]
    lab.require(len(lost) == 1, f"one event must tell a that its messages are gone, these came: {lost}")
    lab.exchange(count=2)
    lab.settle()
