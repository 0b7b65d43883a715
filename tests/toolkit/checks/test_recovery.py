"""The check of arrival after the last fault, on hand-made histories: 4 times 15 s, and 10 s for a handshake."""


def later(story, time_s, node, kind, **fields):
    story.history.append(time_s, node, kind, **fields)
    return len(story.history) - 1


def deliver(story, time_s, node="b"):
    body = {"session": 1, "peer": "a", "tid": 1, "seq": 1, "digest": "0001", "size": 100}
    return later(story, time_s, node, "deliver", **body)


def cut(story, time_s):
    return later(story, time_s, "network", "cut", a="a", b="b", at={}, detail="now")


def test_in_time(story):
    story.pair()
    story.send("a", 1)
    cut(story, 100.0)
    deliver(story, 169.0)
    assert story.judge("liveness_after_heal").ok


def test_too_late(story):
    story.pair()
    story.send("a", 1)
    cut(story, 100.0)
    at = deliver(story, 171.0)
    result = story.judge("liveness_after_heal")
    assert [(v.record, v.text) for v in result.violations] == [
        (at, "a session 1: tid 1 arrives 1 s later than it should")
    ]


def test_never(story):
    story.pair()
    sent = story.send("a", 1)
    cut(story, 100.0)
    later(story, 180.0, "a", "throttle", name="dispatch_bytes", value=0, limit=0)
    result = story.judge("liveness_after_heal")
    assert [(v.record, v.text) for v in result.violations] == [
        (sent, "a session 1: tid 1 has not arrived 10 s after it should have")
    ]


def test_round_trips_and_options_count(story):
    story.process("a", "start", options={"ms_max_backoff": 1.0, "ms_connection_ready_timeout": 2.0})
    story.pair()
    story.link("a", "a/1", "dial", "b")
    later(story, 0.5, "a", "link", link="a/1", action="open", peer="b", session=1)
    story.history.append(0.5, "a", "send", session=1, peer="b", tid=1, digest="0001", size=100)
    deliver(story, 11.0)
    assert story.judge("liveness_after_heal").ok, "4 s, 2 s, and 10 times 0.495 s"
    story.history.records.pop()
    deliver(story, 11.6)
    assert not story.judge("liveness_after_heal").ok


def test_a_server_waits_for_its_client(story):
    story.pair()
    story.send("b", 1)
    later(story, 100.0, "a", "throttle", name="dispatch_bytes", value=0, limit=0)
    assert story.judge("liveness_after_heal").ok


def test_killed_peer_needs_no_recovery(story):
    story.process("b", "start")
    story.pair()
    story.send("a", 1)
    story.process("b", "kill")
    later(story, 100.0, "a", "throttle", name="dispatch_bytes", value=0, limit=0)
    assert story.judge("liveness_after_heal").ok
