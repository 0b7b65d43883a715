"""INV-5 on hand-made histories."""


def test_one_session_after_another(story):
    story.pair("lossless_peer", "lossless_peer")
    story.mark_down("b")
    story.open("b", "lossless_peer", session=2)
    story.rest()
    assert story.judge("INV-5").ok


def test_two_living_sessions_with_one_peer(story):
    story.pair("lossless_peer", "lossless_peer")
    story.open("b", "lossless_peer", session=2)
    assert story.texts("INV-5") == ["b session 2 is READY with a while b session 1 lives"]


def test_sessions_that_are_not_registered_may_be_many(story):
    story.open("b", "stateless_server", session=1)
    story.open("b", "stateless_server", session=2)
    story.rest("b", registry=0)
    assert story.judge("INV-5").ok


def test_registered_lossy_session_is_replaced_first(story):
    story.open("b", "stateless_registered_server", session=1)
    story.open("b", "stateless_registered_server", session=2)
    assert story.texts("INV-5") == ["b session 2 is READY with a while b session 1 lives"]


def test_registry_contains_no_anonymous_session(story):
    story.open("a", "lossy_client", session=1, anonymous=1)
    story.open("a", "lossy_client", session=2)
    story.rest("a", registry=1)
    assert story.judge("INV-5").ok


def test_a_restarted_process_starts_with_an_empty_registry(story):
    story.process("b", "start")
    story.open("b", "lossless_peer")
    story.process("b", "kill")
    story.process("b", "start", 2)
    story.open("b", "lossless_peer", session=2)
    story.rest("b")
    assert story.judge("INV-5").ok


def test_peer_that_learns_its_name_stays_one_peer(story):
    """A session's peer is known by the dialled address first and by its name later."""
    story.open("a", "lossless_peer", peer="v2:10.0.0.2:6800/1")
    story.state("a", peer="b")
    story.state("a", peer="b", state="CLOSED")
    story.open("a", "lossless_peer", session=2, peer="v2:10.0.0.2:6800/1")
    assert story.judge("INV-5").ok


def test_closed_session_in_the_registry(story):
    story.pair()
    story.reset("b")
    story.rest("b", registry=1)
    assert story.texts("INV-5") == ["b: 1 sessions are registered, but only 0 live"]


def test_living_session_missing_in_the_registry(story):
    story.pair()
    story.rest("b", registry=0)
    assert story.texts("INV-5") == ["b: 0 sessions are registered, but 1 live"]


def test_registry_after_the_shutdown(story):
    story.process("b", "start")
    story.pair()
    story.process("b", "stop")
    story.rest("b", registry=1)
    assert story.texts("INV-5") == ["b: 1 sessions are registered after the shutdown"]
