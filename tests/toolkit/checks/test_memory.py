"""The checks of memory, and of peers that do not authenticate, on hand-made histories."""

import pytest


def test_within_the_limits(story):
    story.usage("a", handshake_bytes=1000, data_bytes=10_000)
    assert (story.judge("bounded_memory").violations, story.judge("bounded_memory").note) == ([], "")


@pytest.mark.parametrize(("phase", "limit"), [("handshake", 1000), ("data", 10_000)])
def test_beyond_them(story, phase, limit):
    story.usage("a", **{f"{phase}_bytes": limit + 1})
    text = f"a/1 held {limit + 1} bytes in its {phase} phase, its limit is {limit}"
    assert story.texts("bounded_memory") == [text]
    assert story.texts("INV-11") == [text]


def test_a_throttle_beyond_its_limit(story):
    story.add_record("a", "throttle", name="messages", value=12, limit=10)
    assert story.texts("bounded_memory") == ["a: throttle messages holds 12, its limit is 10 and one message"]


def stranger(story, stays_s, **options):
    story.process("b", "start", options=options)
    story.link("b", "b/1", "accept", "v2:10.0.0.1:1/0", None)
    story.history.append(stays_s, "b", "link", link="b/1", action="close", peer="", session=None)


def test_unauthenticated_link_closed_in_time_is_allowed(story):
    stranger(story, 14.0)
    assert story.judge("INV-11").ok


def test_unauthenticated_link_that_stays_open_is_reported(story):
    stranger(story, 18.0)
    assert story.texts("INV-11") == ["b/1 stayed 18 s without authenticating, 10 s are allowed"]


def test_a_stranger_that_is_never_closed(story):
    story.link("b", "b/1", "accept", "v2:10.0.0.1:1/0", None)
    story.history.append(60.0, "b", "throttle", name="dispatch_bytes", value=0, limit=0)
    assert story.texts("INV-11") == ["b/1 stayed 60 s without authenticating, 10 s are allowed"]


def test_the_option_counts(story):
    stranger(story, 7.5, ms_connection_ready_timeout=2.0)
    assert story.texts("INV-11") == ["b/1 stayed 7.5 s without authenticating, 2 s are allowed"]


def test_authenticated_peer_may_stay(story):
    story.link("b", "b/1", "accept", "v2:10.0.0.1:1/0", None)
    story.auth("b")
    story.history.append(60.0, "b", "throttle", name="dispatch_bytes", value=0, limit=0)
    assert story.judge("INV-11").ok
