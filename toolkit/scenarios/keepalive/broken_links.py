"""KA: keepalives that an application sends as its link breaks."""

from messenger.session.session import IoState
from toolkit.lab.lab import Lab
from toolkit.scenarios.keepalive import KA


@KA.scenario(
    "KA-11",
    "keepalive_at_the_fault",
    priority=2,
    cases={
        f"{moment}, {name}": {"moment": moment, "server": server}
        for moment in ("dispatching", "leaving")
        for name, server in (("dialling", False), ("server", True))
    },
)
def keepalive_at_the_fault(lab: Lab, moment: str, *, server: bool) -> None:
    """A keepalive that is sent while the link breaks is written on the next link, and answered.

    A node's link breaks as it reads the second of two messages, and its application sends a keepalive while the
    first is dispatched, or, with shards, while the io half of the session is on its way home. The session does not
    forget it, whether it dials itself or waits for its peer's dial. One keepalive is written and one answer comes.
    """
    lab.two("lossless_peer", "stateful_server" if server else "lossless_peer")
    lab.connect("a", "b")
    lab.exchange(count=1)
    lab.expect_acked("a")
    lab.expect_acked("b")
    message_in = lab.point("MESSAGE", "READ")
    lab.arm("b", message_in, nth=2)
    if moment == "dispatching":
        lab.on_delivery("b", "keepalive", peer="a")
    lab.send("a", "b", 2)
    if moment == "leaving":
        broken = {"kind": "io", "state": IoState.SWITCHED.value} if lab.way.workers else {"kind": "fault"}
        lab.wait_until(lambda: bool(lab.records("b", **broken)), "b's link broken")
        lab.keepalive("b", "a")
    lab.expect_hit("b", message_in)
    lab.expect_delivered("a", "b", 3)
    lab.wait_until(lambda: lab.session("b", "a")["keepalive_acked_s"] > 0, "b's keepalive answered")
    answers = lab.frames("b", "KEEPALIVE2_ACK", "rx")
    lab.require(len(answers) == 1, f"{len(answers)} answers came to one keepalive")
    lab.require(lab.frames("b", "KEEPALIVE2")[-1]["link"] == answers[0]["link"], "it was answered on another link")
    lab.exchange(count=1)
    lab.settle()
