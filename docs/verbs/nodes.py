"""Examples of the verbs about nodes."""

from toolkit import Lab


def node(lab: Lab) -> None:
    lab.node("osd", "osd.0", "stateful_server", ms_dispatch_throttle_bytes=1 << 20)
    lab.node("client", "client.7", "lossless_client", listens=False)
    lab.start()
    lab.connect("client", "osd")
    lab.exchange("client", "osd")


def two(lab: Lab) -> None:
    lab.two("lossless_client", "stateful_server", "client.7", "mds.0")
    lab.connect("a", "b")


def start(lab: Lab) -> None:
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a", "b")


def start_late(lab: Lab) -> None:
    lab.node("a", "osd.1", "lossless_peer")
    lab.node("b", "osd.2", "lossless_peer")
    lab.start("a")
    lab.send("a", "b")  # dials in vain, again and again
    lab.wait(1)
    lab.start_late("b")
    lab.expect_delivered("a", "b", 1)


def same_address(lab: Lab) -> None:
    lab.node("b", "osd.2", "lossless_peer")
    lab.node("c", "osd.3", "lossless_peer")
    lab.same_address("c", "b")
    assert lab.address("c").rpartition("/")[0] == lab.address("b").rpartition("/")[0]


def like(lab: Lab) -> None:
    lab.like("crimson")  # keep to the rules of crimson, from here on
    lab.two()
    lab.exchange()


def kill(lab: Lab) -> None:
    lab.kill("b")
    lab.send("a", "b")
    lab.revive("b")
    lab.expect_event("a", "b", "remote_reset")


def revive(lab: Lab) -> None:
    lab.kill("b")
    lab.revive("b", new_nonce=True)  # another identity at the same port
    lab.send("b", "a")
    lab.expect_delivered("b", "a", 1)


def freeze(lab: Lab) -> None:
    lab.freeze("b")
    lab.send("a", "b", count=3)
    lab.wait(2)
    lab.thaw("b")
    lab.expect_delivered("a", "b", 3)


def thaw(lab: Lab) -> None:
    lab.freeze("b")
    lab.wait(2)
    lab.thaw("b")
    lab.exchange()


def running(lab: Lab) -> None:
    lab.kill("b")
    assert lab.running("a") and not lab.running("b")


def address(lab: Lab) -> None:
    print(lab.address("b"))  # v2:127.0.0.1:40002/1002


def hosts(lab: Lab) -> None:
    assert "127.0.0.1" in lab.hosts("a")


def own_address(lab: Lab) -> None:
    assert lab.own_address("b") == lab.address("b")


def learn(lab: Lab) -> None:
    lab.learn("a", "b", lab.address("b"))


def configure(lab: Lab) -> None:
    lab.configure("a", ms_initial_backoff=1.0)
    lab.cut("a", "b")
    lab.exchange()


def counters(lab: Lab) -> None:
    lab.exchange()
    print(lab.counters("a"))  # perf dump, by section


def snapshot(lab: Lab) -> None:
    lab.exchange()
    lab.expect_acked("a")
    assert lab.snapshot("a")["queued"] == 0
