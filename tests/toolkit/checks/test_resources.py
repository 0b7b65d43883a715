"""INV-9 on hand-made histories."""


def throttle(story, value, *, name="ms_dispatch_throttle_bytes", limit=1000):
    return story.add_record("a", "throttle", name=name, value=value, limit=limit)


def test_balanced(story):
    story.pair()
    story.send("b", 1)
    story.deliver("a", 1, size=400)
    throttle(story, 1400)
    throttle(story, 0)
    story.rest()
    assert story.judge("INV-9").ok


def test_negative(story):
    throttle(story, -5)
    assert story.texts("INV-9") == ["a: throttle ms_dispatch_throttle_bytes is negative: -5"]


def test_above_the_limit_by_more_than_one_message(story):
    story.deliver("a", 1, size=400)
    throttle(story, 1401)
    assert story.texts("INV-9") == [
        "a: throttle ms_dispatch_throttle_bytes holds 1401, its limit is 1000 and one message"
    ]


def test_messages_above_the_limit_may_exceed_it_twice(story):
    """One passes as long as the limit is not exceeded, as in Ceph, and another one while it arrives."""
    story.deliver("a", 1, size=1500)
    throttle(story, 4000)
    throttle(story, 4001)
    assert story.texts("INV-9") == [
        "a: throttle ms_dispatch_throttle_bytes holds 4001, its limit is 1000 and two messages"
    ]


def test_message_throttle_counts_messages(story):
    throttle(story, 11, name="messages", limit=10)
    throttle(story, 12, name="messages", limit=10)
    assert story.texts("INV-9") == ["a: throttle messages holds 12, its limit is 10 and one message"]


def test_no_limit(story):
    throttle(story, 1 << 40, limit=0)
    assert story.judge("INV-9").ok


def test_not_returned_at_rest(story):
    throttle(story, 7)
    story.rest("a", dispatch_bytes=7)
    assert story.texts("INV-9") == [
        "a: throttle ms_dispatch_throttle_bytes still holds 7 at rest",
        "a: 7 dispatched bytes are not released at rest",
    ]


def test_a_killed_process_takes_its_throttles_with_it(story):
    story.process("a", "start")
    throttle(story, 7)
    story.process("a", "kill")
    story.process("a", "start", 2)
    story.rest("a")
    assert story.judge("INV-9").ok


def test_a_message_that_was_dropped_before_it_was_delivered_counts_as_well(story):
    story.pair()
    story.send("b", 1, size=400)
    throttle(story, 1400)
    assert story.judge("INV-9").ok


def test_every_shard_may_exceed_its_part_by_a_message(story):
    story.pair()
    story.deliver("a", 1, size=400)
    story.add_record("a", "io", session=1, link="a/1", shard=2, state="open")
    throttle(story, 1800)
    assert story.judge("INV-9").ok
    throttle(story, 1801)
    assert story.texts("INV-9") == [
        "a: throttle ms_dispatch_throttle_bytes holds 1801, its limit is 1000 and one message on each of 2 shards"
    ]


def wait(story, link, action):
    return story.add_record("a", "wait", link=link, name="dispatch_bytes", action=action)


def test_links_admitted_in_turn_violate_nothing(story):
    for link in "a/1", "a/2", "a/3", "a/4":
        wait(story, link, "begin")
    wait(story, "a/3", "leave")
    wait(story, "a/4", "exceed")
    wait(story, "a/1", "admit")
    wait(story, "a/2", "admit")
    assert story.texts("throttle_turns") == []


def test_link_admitted_before_an_earlier_one_is_reported(story):
    wait(story, "a/1", "begin")
    wait(story, "a/2", "begin")
    wait(story, "a/2", "admit")
    assert story.texts("throttle_turns") == [
        "a: a/2 is admitted to throttle dispatch_bytes before a/1, which waited longer"
    ]


def test_a_process_that_starts_again_has_no_links_that_wait(story):
    story.process("a", "start")
    wait(story, "a/1", "begin")
    story.process("a", "kill")
    story.process("a", "start", 2)
    wait(story, "a/2", "begin")
    wait(story, "a/2", "admit")
    assert story.texts("throttle_turns") == []


def test_throttles_that_hold_messages_at_rest_are_reported(story):
    story.rest("a", throttled=3, arrivals=1)
    assert story.texts("INV-9") == [
        "a: throttles still hold 3 messages and bytes at rest",
        "a: 1 messages are still in arrival at rest",
    ]
