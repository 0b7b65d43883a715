"""Examples of the verbs about sessions and messages."""

from toolkit import Lab
from toolkit.errors import ScenarioFailed


def dial(lab: Lab) -> None:
    lab.two("lossless_client", "stateful_server", "client.7", "mds.0")
    lab.dial("a", "b")  # does not wait
    lab.expect_event("a", "b", "connect")


def connect(lab: Lab) -> None:
    lab.two()
    lab.connect("a", "b")  # waits until the session is open
    lab.expect_state("a", "b", "READY")


def send(lab: Lab) -> None:
    lab.send("a", "b", count=3, size_bytes=4096)  # from a to b
    lab.expect_delivered("a", "b", 3)


def send_again(lab: Lab) -> None:
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.send_again("a", "b")
    lab.expect_delivered("a", "b", 2)


def exchange(lab: Lab) -> None:
    lab.exchange(count=10)  # both ways, and waits for all
    lab.exchange("a", "b", 10)


def keepalive(lab: Lab) -> None:
    lab.keepalive("a", "b")
    lab.wait_for(lambda: bool(lab.frames("b", "KEEPALIVE2_ACK")), "b answers")


def mark_down(lab: Lab) -> None:
    lab.mark_down("a", "b")
    lab.send("a", "b")  # opens another session
    lab.expect_delivered("a", "b", 1)


def shut(lab: Lab) -> None:
    lab.send("a", "b", count=3)
    lab.shut("a", "b")  # after the queue has been acknowledged
    lab.expect_delivered("a", "b", 3)


def hold(lab: Lab) -> None:
    lab.hold("b")
    lab.send("a", "b", count=3)
    lab.expect_delivered("a", "b", 3)
    assert lab.snapshot("b")["dispatch_bytes"] > 0
    lab.release("b")


def release(lab: Lab) -> None:
    lab.hold("b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.release("b")
    lab.expect_throttles_empty("b")


def expect_delivered(lab: Lab) -> None:
    lab.send("a", "b", count=5)
    lab.expect_delivered("a", "b", 5, within_s=10)  # the names as of send


def expect_event(lab: Lab) -> None:
    lab.kill("b")
    lab.send("a", "b")
    lab.revive("b")
    lab.expect_event("a", "b", "remote_reset")


def expect_no_event(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.exchange()
    lab.expect_no_event("a", "b", "remote_reset")


def expect_events(lab: Lab) -> None:
    lab.exchange()
    lab.expect_events("a", "b", connect=1)  # and no other


def expect_state(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.expect_state("a", "b", "STANDBY")


def expect_no_dial(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.expect_state("a", "b", "STANDBY")
    lab.expect_no_dial(2.0, "a", "b")


def expect_acked(lab: Lab) -> None:
    lab.send("a", "b", count=5)
    lab.expect_acked("a")


def expect(lab: Lab) -> None:
    lab.send("a", "b", count=5)
    lab.expect("a", "sent", 0)  # nothing is kept for replay any more


def require(lab: Lab) -> None:
    lab.exchange(count=2)
    lab.require(lab.tids("b") == [1, 2], f"1 and 2, not {lab.tids('b')}")


def wait_for(lab: Lab) -> None:
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.wait_for(lambda: lab.dials("a") == 2, "a dials again", lambda: f"{lab.dials('a')} dials")


def wait(lab: Lab) -> None:
    lab.wait(2.0)  # of virtual time in simulation


def settle(lab: Lab) -> None:
    lab.send("a", "b", count=5)
    lab.settle()  # nothing is queued, unacknowledged or dialled
    assert all(result.ok for result in lab.check())


def wait_until(lab: Lab) -> None:
    lab.send("a", "b", count=5)
    lab.wait_until(lambda: len(lab.tids("b")) == 5, "five messages")


def come_to_rest(lab: Lab) -> None:
    lab.send("a", "b", count=5)
    lab.come_to_rest(2.0)
    assert lab.delivered("a", "b") == 5


def delivered(lab: Lab) -> None:
    lab.exchange(count=2)
    assert lab.delivered("a", "b") == lab.delivered("b", "a") == 2


def finish(lab: Lab) -> None:
    lab.exchange()
    try:
        lab.finish()  # called at the end of every scenario
    except ScenarioFailed as error:
        print(error)
