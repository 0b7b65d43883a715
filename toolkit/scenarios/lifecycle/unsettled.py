"""SH: what a messenger reports of messages and sessions that are between two places."""

from messenger.session.session import IoState
from toolkit.lab.lab import Lab
from toolkit.scenarios.lifecycle import SH

_MESSAGES = 8


@SH.scenario(
    "SH-12", "delayed_messages_count_as_queued", priority=2, backends=("sim",), only="it compares instants"
)
def delayed_messages_count_as_queued(lab: Lab) -> None:
    """Messages whose delivery an injector delays count as queued until they are delivered.

    Delivery at one side is delayed by up to five seconds. Its snapshot counts every message that has arrived and
    is not delivered yet, and nothing once all are delivered.
    """
    late = {"ms_inject_delay_type": "osd", "ms_inject_delay_probability": 1.0, "ms_inject_delay_max": 5.0}
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer", **late)  # type: ignore[arg-type]
    lab.start()
    lab.connect("a", "b")
    lab.send("a", "b", _MESSAGES)
    seen = set()
    for _ in range(20):
        lab.wait(0.25)
        left, queued = _MESSAGES - lab.delivered("a", "b"), lab.snapshot("b")["queued"]
        lab.require(queued == left, f"{left} messages are not delivered yet, b counts {queued}")
        seen.add(queued)
    lab.expect_delivered("a", "b", _MESSAGES)
    lab.require(max(seen) > 0, "no message was delayed")
    lab.require(lab.snapshot("b")["queued"] == 0, f"nothing may be left: {lab.snapshot('b')}")
    lab.settle()


@SH.scenario("SH-13", "io_half_of_a_session", priority=2)
def io_half_of_a_session(lab: Lab) -> None:
    """The io half of a session moves to a shard with each link, comes back with each fault, and ends with it.

    A session's link is cut and replaced twice, and the session is marked down. On its shard the io half is open
    for each link, delays its output at the fault, and is then switched to the home shard. After the last link it
    is dropped. Without shards it does not move.
    """
    lab.two("lossless_peer")
    lab.connect("a", "b")
    for _ in range(2):
        lab.exchange(count=2)
        lab.cut("a", "b")
    lab.exchange(count=2)
    lab.expect_acked("a")
    lab.expect_acked("b")
    lab.mark_down("a", "b")

    def states() -> list[str]:
        return [record["state"] for record in lab.records("a", "io") if record["shard"]]

    whole = [IoState.OPEN, IoState.DELAY, IoState.SWITCHED] * 2 + [IoState.OPEN, IoState.DROP]
    due = whole if lab.way.workers else []
    lab.wait_until(lambda: len(states()) >= len(due), f"{due} on shards")
    lab.require(states() == due, f"the states on shards were {states()}")
    lab.settle()
