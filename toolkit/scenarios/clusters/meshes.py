"""CL: meshes of monitors, which are lossless peers, that start, die and restart."""

from itertools import combinations

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS
from toolkit.lab.ways import ways
from toolkit.scenarios.clusters import CL

_FOUR_WAYS = ways("v2-crc", "v2-secure", "v2-crc-w2", "v1")
_GRACE_S = 10.0
"""Seconds of silence after which a monitor counts as cut off."""


def _monitors(lab: Lab, count: int) -> list[str]:
    """Describe monitors with Ceph's policies: peers that keep sessions and have resetcheck."""
    names = [chr(ord("a") + index) for index in range(count)]
    for index, name in enumerate(names):
        lab.node(name, f"mon.{index}", "lossless_peer_reuse client=stateless_server", ms_max_backoff=5.0)
    return names


def _everybody_greets(lab: Lab, names: list[str], count: int = 1) -> None:
    """Have each monitor send to every other at the same time."""
    for a in names:
        for b in names:
            if a != b:
                lab.send(a, b, count)


def _expect_all_delivered(lab: Lab, names: list[str], count: int, within_s: float) -> None:
    for a in names:
        for b in names:
            if a != b:
                lab.expect_delivered(b, a, count, within_s=within_s)


def _one_session_per_pair(lab: Lab, names: list[str]) -> None:
    for name in names:
        snapshot = lab.snapshot(name)
        lab.require(snapshot["registry"] == len(names) - 1, f"{name} has {snapshot['registry']} sessions")
        lab.require(snapshot["links"] == len(names) - 1, f"{name} has {snapshot['links']} links")


@CL.scenario("CL-01", "mon_quorum_connects", ways=_FOUR_WAYS, cases={"3": {"count": 3}, "5": {"count": 5}})
def mon_quorum_connects(lab: Lab, count: int) -> None:
    """Monitors that all start at once form a full mesh, with one session for each pair.

    Every monitor dials every other at the same time, so that every pair races. Each race has one winner, every
    message arrives, and each monitor has one session and one link for each other.
    """
    names = _monitors(lab, count)
    lab.start()
    _everybody_greets(lab, names, 3)
    _expect_all_delivered(lab, names, 3, 20.0)
    lab.settle()
    _one_session_per_pair(lab, names)


@CL.scenario("CL-02", "mon_kill_revive", ways=_FOUR_WAYS, cases={"3": {"count": 3}, "5": {"count": 5}})
def mon_kill_revive(lab: Lab, count: int) -> None:
    """Monitors are killed and revived one after the other; the mesh closes again each time.

    A client dials another monitor whenever one is dead. After each revival all monitors exchange messages again,
    and the client was served by a running one.
    """
    names = _monitors(lab, count)
    lab.node("client", "client.7", "lossy_client", listens=False)
    lab.start()
    _everybody_greets(lab, names)
    _expect_all_delivered(lab, names, 1, 20.0)
    for victim in names:
        lab.kill(victim)
        lab.wait(0.1 if lab.real_time else 1.0)
        living = next(name for name in names if name != victim)
        before = lab.delivered("client", living)
        lab.send("client", victim)  # the victim is dead
        lab.send("client", living)
        lab.expect_delivered("client", living, before + 1)
        lab.mark_down("client", victim)
        lab.mark_down("client", living)
        lab.revive(victim)
        # The first message of a pair may be lost with the session that the victim has lost.
        _everybody_greets(lab, names)
        lab.wait(6.0 if not lab.real_time else 0.5)
        delivered = {(a, b): lab.delivered(b, a) for a in names for b in names if a != b}
        _everybody_greets(lab, names)
        for (a, b), count_before in delivered.items():
            lab.expect_delivered(b, a, count_before + 1, within_s=20.0)
    lab.settle()


@CL.scenario(
    "CL-03",
    "mon_restart_no_false_netsplit",
    ways=_FOUR_WAYS,
    backends=("sim",),
    only="grace periods of tens of seconds take a virtual clock",
)
def mon_restart_no_false_netsplit(lab: Lab) -> None:
    """A restarted monitor reconnects despite its low global_seq.

    It restarts at the same address with the same nonce, as monitors do, and its global_seq starts from the
    beginning, while the others remember a far higher one. All pairs send each other messages every two seconds;
    none may be silent for longer than the grace period of ten seconds after the restart.
    """
    names = _monitors(lab, 3)
    lab.start()
    _everybody_greets(lab, names)
    _expect_all_delivered(lab, names, 1, 20.0)
    for _ in range(30):  # the others get to know a high global_seq
        lab.cut("a", "c")
        lab.send("a", "c")
        lab.send("c", "a")
        lab.wait(0.3)
    lab.kill("c")
    lab.wait(3.0)
    lab.revive("c")
    silence_s = dict.fromkeys(combinations(names, 2), 0.0)
    delivered = {pair: _exchanged(lab, *pair) for pair in silence_s}
    for _ in range(10):
        _everybody_greets(lab, names)
        lab.wait(2.0)
        for pair in silence_s:
            now = _exchanged(lab, *pair)
            silence_s[pair] = 0.0 if now > delivered[pair] else silence_s[pair] + 2.0
            delivered[pair] = now
            lab.require(silence_s[pair] < _GRACE_S, f"{pair} have not heard each other for {silence_s[pair]:g} s")
    lab.settle()


def _exchanged(lab: Lab, a: str, b: str) -> int:
    return min(lab.delivered(b, a), lab.delivered(a, b))


@CL.scenario(
    "CL-13",
    "session_churn",
    priority=2,
    quick=False,
    ways=ways("v2-crc", "v2-secure", "v1"),
    cases={name: {"sessions": 300, "policies": name} for name in ("client", "lossy")},
)
def session_churn(lab: Lab, sessions: int, policies: str) -> None:
    """Hundreds of short sessions leave nothing behind.

    A client opens a session, sends a few messages and marks it down, again and again. The server holds the same at
    the end as after the first.
    """
    PAIRS[policies].start(lab)
    if lab.real_time:
        sessions //= 6
    for number in range(1, sessions + 1):
        lab.send("a", "b", 2)
        lab.expect_delivered("a", "b", 2 * number)
        lab.mark_down("a", "b")
        if number == 1:
            lab.wait(0.2)
            first = lab.snapshot("b")
    lab.wait(0.2)
    last = lab.snapshot("b")
    lab.require(last == first, f"after {sessions} sessions the server holds {last}, after one it held {first}")
