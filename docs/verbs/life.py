"""Examples of the verbs about shutdown, clocks, dispatch and limits."""

from toolkit import Lab


def stop(lab: Lab) -> None:
    lab.send("a", "b", count=3)
    lab.stop("a", graceful=True)
    lab.expect_stopped("a")
    lab.expect_delivered("a", "b", 3)


def expect_stopped(lab: Lab) -> None:
    lab.stop("a")
    lab.expect_stopped("a", within_s=10)


def on_delivery(lab: Lab) -> None:
    lab.on_delivery("b", "mark_down", nth=2, peer="a")  # while it dispatches the second message
    lab.send("a", "b", count=2)
    lab.expect_event("a", "b", "remote_reset")


def keep_alive(lab: Lab) -> None:
    lab.keep_alive("a", "b", interval_s=0.5, timeout_s=2.0)
    lab.partition("a", "b")
    lab.expect_broken("a", 1)


def jump_clock(lab: Lab) -> None:
    lab.jump_clock("a", -3600.0)
    lab.exchange()


def limit_descriptors(lab: Lab) -> None:
    lab.limit_descriptors("a", limited=True)
    lab.limit_descriptors("a", limited=False)
    lab.exchange()


def limit_memory(lab: Lab) -> None:
    lab.limit_memory("b", 64 << 20)
    lab.exchange()
    lab.limit_memory("b", None)


def expect_calls(lab: Lab) -> None:
    lab.exchange()
    lab.expect_calls("a")


def expect_counters(lab: Lab) -> None:
    lab.exchange()
    lab.expect_counters("a")


def expect_throttles_empty(lab: Lab) -> None:
    lab.exchange()
    lab.expect_throttles_empty("a", "b")


def expect_memory(lab: Lab) -> None:
    lab.exchange()
    lab.expect_memory("a", 0)


def wait_for_dials(lab: Lab) -> None:
    lab.kill("b")
    lab.send("a", "b")
    lab.wait_for_dials("a", 3)


def expect_pauses(lab: Lab) -> None:
    lab.two("lossless_client", "stateful_server", "client.7", "mds.0")
    lab.refuse("a", "b")
    lab.dial("a", "b")
    lab.wait_for_dials("a", 3)
    lab.expect_pauses("a", 0.2, 0.4)


def expect_backoff(lab: Lab) -> None:
    lab.two("lossless_client", "stateful_server", "client.7", "mds.0")
    lab.refuse("a", "b")
    lab.dial("a", "b")
    lab.wait(5)
    lab.expect_backoff("a", at_least=3)


def close(lab: Lab) -> None:
    lab.close()  # the end of a ``with`` block calls it
