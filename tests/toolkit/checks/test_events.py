"""INV-3 and INV-4 on hand-made histories."""

import pytest

LOSSY = ("lossy_client", "stateless_server")


def test_clean_events(story):
    story.pair()
    story.send("a", 1)
    story.deliver("b", 1)
    story.event("b", "remote_reset")
    story.event("b", "accept")
    story.event("b", "accept")
    story.mark_down("b")
    story.event("a", "remote_reset")
    story.event("a", "connect")
    story.reset("a")
    assert story.judge("INV-3").ok
    assert story.judge("INV-4").ok


def test_delivery_after_mark_down(story):
    story.pair()
    story.send("a", 1)
    story.mark_down("b")
    late = story.deliver("b", 1)
    result = story.judge("INV-3")
    assert [(v.record, v.text) for v in result.violations] == [
        (late, "b session 1: tid 1 is delivered after mark_down returned")
    ]


def test_delivery_after_reset(story):
    story.pair(*LOSSY)
    story.send("a", 1)
    story.reset("b")
    story.deliver("b", 1)
    assert story.texts("INV-3") == ["b session 1: tid 1 is delivered after the session's reset"]


def test_old_message_after_remote_reset(story):
    """RS-10: messages that the peer sent before it restarted are not delivered behind remote_reset."""
    story.process("a", "start")
    story.pair()
    story.send("a", 1, 2)
    story.deliver("b", 1)
    story.process("a", "kill")
    story.process("a", "start", 2)
    story.open("a", "lossless_client")
    story.event("b", "remote_reset")
    story.event("b", "accept")
    story.deliver("b", 2)
    (text,) = story.texts("INV-3")
    assert text == (
        "b session 1: tid 2 is delivered after remote_reset, "
        "but a (incarnation 1) session 1 sent it before, in the session that was reset"
    )


def test_late_message_before_remote_reset_is_allowed(story):
    story.pair()
    story.send("a", 1)
    story.mark_down("a")
    story.deliver("b", 1)
    story.event("b", "remote_reset")
    assert story.judge("INV-3").ok


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (lambda s: s.deliver("b", 1, session=2), "b session 2: tid 1 is delivered before accept or connect"),
        (lambda s: s.event("b", "remote_reset", 2), "b session 2: remote_reset before accept or connect"),
        (
            lambda s: (s.event("b", "remote_reset"), s.deliver("b", 1)),
            "b session 1: tid 1 is delivered between remote_reset and accept or connect",
        ),
        (
            lambda s: (s.event("b", "remote_reset"), s.event("b", "remote_reset")),
            "b session 1: remote_reset twice without accept or connect between",
        ),
        (lambda s: (s.mark_down("b"), s.event("b", "reset")), "b session 1: reset after mark_down"),
        (lambda s: (s.reset("b"), s.event("b", "reset")), "b session 1: reset after reset"),
        (lambda s: (s.reset("b"), s.event("b", "accept")), "b session 1: accept after reset"),
        (
            lambda s: s.event("b", "reset", 2),
            "b session 2: reset of an accepted session that was never announced",
        ),
    ],
)
def test_events_out_of_order(story, script, text):
    story.pair()
    script(story)
    assert story.texts("INV-4") == [text]


def test_one_remote_reset_may_precede_the_accept_event(story):
    """The application may use a session that a peer has asked for and that is not accepted yet."""
    story.send("b", 1)
    story.event("b", "remote_reset")
    story.pair()
    assert story.judge("INV-4").ok
    story.event("b", "remote_reset")
    story.event("b", "remote_reset")
    assert story.texts("INV-4") == ["b session 1: remote_reset twice without accept or connect between"]


def test_hopeless_dial_ends_in_a_reset(story):
    """A peer without a feature we need: the application hears of it though it was never connected."""
    story.link("a", "a/1", "dial", "v2:10.0.0.2:6800/1")
    story.reset("a", why="required msgr2 feature missing")
    assert story.judge("INV-4").ok


def test_refusals_may_come_at_any_time(story):
    story.event("a", "refused")
    story.pair()
    story.event("a", "refused")
    assert story.judge("INV-4").ok


def test_lossy_session_closed_without_reset(story):
    story.pair(*LOSSY)
    story.state("b", state="CLOSED", why="peer closed the connection in READY")
    assert story.texts("INV-4") == [
        "b session 1: closed (peer closed the connection in READY) without a reset event"
    ]


@pytest.mark.parametrize("why", ["messenger shut down", "marked down"])
def test_lossy_session_closed_by_its_own_side(story, why):
    story.pair(*LOSSY)
    story.state("b", state="CLOSED", why=why)
    assert story.judge("INV-4").ok


def test_session_without_an_accept_event_closes_without_an_event(story):
    """CF05: a fault before SERVER_IDENT; there was no event of the session."""
    story.policies["b", 1] = "stateless_server"
    story.state("b", state="CLOSED", why="socket error")
    assert story.judge("INV-4").ok


def asked_to_reset(story, *events, full=True):
    story.pair()
    story.wire(2)
    story.pass_frame("b", "SESSION_RESET", number=2, full=full)
    for event in events:
        story.event("a", event)


def test_a_reset_by_the_peer_is_one_remote_reset(story):
    asked_to_reset(story, "remote_reset", "connect", "remote_reset")
    assert story.judge("no_stale_session").ok


@pytest.mark.parametrize("events", [(), ("remote_reset", "remote_reset"), ("connect", "remote_reset")])
def test_reset_by_the_peer_is_not_raised_once(story, events):
    asked_to_reset(story, *events)
    times = len(events) if "connect" not in events else 0
    assert story.texts("no_stale_session") == [
        f"a session 1 raises remote_reset {times} times for one reset by its peer"
    ]


def test_partial_reset_is_not_raised(story):
    asked_to_reset(story, full=False)
    assert story.judge("no_stale_session").ok


def test_v1_reset_of_a_session_never_open_needs_no_event(story):
    story.pair()
    story.wire(2)
    story.pass_frame("b", "CONNECT_REPLY", number=2, tag="RESETSESSION")
    assert story.judge("no_stale_session").ok
    story.event("a", "remote_reset")
    story.event("a", "remote_reset")
    assert not story.judge("no_stale_session").ok
