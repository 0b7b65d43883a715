"""The check of changed bytes on hand-made histories."""

import pytest

MESSAGE = 240


def secure(story):
    story.authenticate()
    story.send_frame("a", "MESSAGE", length=MESSAGE)
    return 4  # banner, HELLO, AUTH_REQUEST, AUTH_SIGNATURE come before


def arrive(story, tag="MESSAGE", *, back=1):
    """The frame that was sent last, or one of those before it, comes after all."""
    story.frames[1]["a"] = [story.frames[1]["a"][0] - back, 0]
    return story.take_frame("b", tag, length=MESSAGE)


@pytest.mark.parametrize("what", ["flip", "truncate", "drop", "swap"])
def test_refused_forgery_is_no_violation(story, what):
    at = secure(story)
    story.mangle("a", what, "MESSAGE", at, byte=50)
    story.fault("b", reason="AUTH_TAG")
    assert (story.judge("reject_forged").violations, story.judge("reject_forged").note) == ([], "")


@pytest.mark.parametrize("what", ["flip", "truncate", "drop", "swap"])
def test_accepted_frame_after_a_forgery_is_a_violation(story, what):
    at = secure(story)
    story.mangle("a", what, "MESSAGE", at, byte=50)
    taken = arrive(story)
    result = story.judge("reject_forged")
    assert [(v.record, v.text) for v in result.violations] == [
        (taken, f"b/1: MESSAGE is taken after the {what} at frame 4, on a secure link")
    ]


@pytest.mark.parametrize("what", ["insert", "duplicate", "replay", "reflect"])
def test_frame_inserted_after_a_whole_frame_must_be_refused(story, what):
    at = secure(story)
    story.mangle("a", what, "MESSAGE", at)
    arrive(story)
    assert story.judge("reject_forged").ok, "the frame itself is whole"
    taken = story.take_frame("b", "MESSAGE", length=MESSAGE)
    assert [v.record for v in story.judge("reject_forged").violations] == [taken]


def crc(story, tag="MESSAGE", length=MESSAGE):
    story.authenticate(mode="crc")
    story.send_frame("a", tag, length=length)


@pytest.mark.parametrize(("byte", "ok"), [(0, False), (-14, False), (-13, True), (-1, True)])
def test_crc_mode_covers_all_but_the_epilogue(story, byte, ok):
    crc(story)
    story.mangle("a", "flip", "MESSAGE", 4, byte=byte)
    arrive(story)
    assert story.judge("reject_forged").ok is ok


def test_crc_mode_covers_small_frames(story):
    crc(story, "ACK", 44)
    story.mangle("a", "flip", "ACK", 4, byte=43)
    arrive(story, "ACK")
    assert story.texts("reject_forged") == ["b/1: ACK is taken although a byte of frame 4 was changed"]


def test_crc_mode_may_accept_a_duplicated_frame(story):
    crc(story)
    story.mangle("a", "duplicate", "MESSAGE", 4)
    arrive(story)
    story.take_frame("b", "MESSAGE", length=MESSAGE)
    assert story.judge("reject_forged").ok


def v1_message(story):
    story.wire()
    for tag in ("BANNER", "IDENTIFY", "CONNECT", "CONNECT"):
        story.pass_frame("a", tag)
    story.send_frame("a", "MSG", length=MESSAGE)


@pytest.mark.parametrize(("byte", "ok"), [(0, True), (1, False), (-22, False), (-21, True)])
def test_v1_covers_header_and_parts(story, byte, ok):
    v1_message(story)
    story.mangle("a", "flip", "MSG", 4, byte=byte)
    arrive(story, "MSG")
    assert story.judge("reject_forged").ok is ok


def greeted(story, what, tag, **fields):
    """A frame before the signatures is changed, and no side refuses it; the signatures are unchanged."""
    story.wire()
    for name in ("BANNER", "HELLO", "AUTH_REQUEST"):
        story.send_frame("a", name, **fields)
        if name == tag:
            story.mangle("a", what, tag, ("BANNER", "HELLO", "AUTH_REQUEST").index(tag), byte=20)
    story.frames[1]["a"] = [0, 0]
    for name in ("BANNER", "HELLO", "AUTH_REQUEST"):
        story.take_frame("b", name)
        story.pass_frame("b", "AUTH_DONE" if name == "AUTH_REQUEST" else name)
    story.auth("b", mode="crc")
    story.pass_frame("a", "AUTH_SIGNATURE")


@pytest.mark.parametrize(("what", "tag"), [("rewrite", "AUTH_REQUEST"), ("flip", "BANNER"), ("rewrite", "HELLO")])
def test_the_signatures_cover_the_beginning(story, what, tag):
    greeted(story, what, tag)
    story.fault("b", reason="AUTH_SIGNATURE", session=None)
    assert story.judge("reject_forged").ok


@pytest.mark.parametrize("tag", ["BANNER", "HELLO", "AUTH_REQUEST"])
def test_session_that_opens_after_a_rewritten_frame_is_reported(story, tag):
    greeted(story, "rewrite", tag)
    at = story.pass_frame("a", "CLIENT_IDENT")
    result = story.judge("reject_forged")
    assert [(v.record, v.text) for v in result.violations] == [
        (at, f"b/1: a session opens in spite of the rewrite of its {tag}")
    ]


def test_reflected_sealed_frame(story):
    at = secure(story)
    story.mangle("a", "reflect", "MESSAGE", at)
    story.fault("a", reason="AUTH_TAG")
    assert story.judge("reject_forged").ok
    taken = story.take_frame("a", "MESSAGE", length=MESSAGE)
    result = story.judge("reject_forged")
    assert [(v.record, v.text) for v in result.violations] == [
        (taken, "a/1: MESSAGE is taken, which it sent itself")
    ]


def test_accepted_replay_of_a_sealed_frame_is_reported(story):
    at = secure(story)
    story.mangle("a", "replay", "MESSAGE", at)
    taken = arrive(story, "ACK")
    assert [v.record for v in story.judge("reject_forged").violations] == [taken]


def test_join_of_frames_needs_no_refusal(story):
    at = secure(story)
    story.mangle("a", "join", "MESSAGE", at)
    arrive(story)
    assert (story.judge("reject_forged").violations, story.judge("reject_forged").note) == ([], "")


def test_forgery_on_an_unknown_link_is_noted(story):
    story.mangle("a", "flip", "MESSAGE", 4)
    result = story.judge("reject_forged")
    assert result.ok
    assert "which link the flip at record 0 touched is not known" in result.note


def test_forgery_on_one_of_two_links_allows_frames_on_the_other(story):
    """Both had sent such a frame; on one of them nothing came of it."""
    for number in (1, 2):
        story.authenticate(number)
        story.send_frame("a", "MESSAGE", number=number, length=MESSAGE)
    story.mangle("a", "flip", "MESSAGE", 4, byte=50)
    arrive(story)
    assert story.judge("reject_forged").ok


def test_small_frames_of_v1_have_no_crc(story):
    story.wire()
    for tag in ("BANNER", "IDENTIFY", "CONNECT", "CONNECT"):
        story.pass_frame("a", tag)
    story.send_frame("a", "ACK", length=9)
    story.mangle("a", "flip", "ACK", 4, byte=3)
    arrive(story, "ACK")
    assert story.judge("reject_forged").ok
