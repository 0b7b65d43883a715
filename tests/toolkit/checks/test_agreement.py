"""The checks of both ends' stories of a stream on hand-made histories."""

import pytest


def test_both_ends_record_the_same(story):
    story.authenticate()
    story.pass_frame("a", "MESSAGE", seq=1, tid=7)
    story.send_frame("a", "MESSAGE", seq=2, tid=8)
    for name in ("agreement", "decode_total"):
        assert (story.judge(name).violations, story.judge(name).note) == ([], "")


def received_as(story, **fields):
    """A message arrives as another than was sent."""
    story.authenticate()
    sent = {"seq": 1, "tid": 7, "length": 160}
    story.send_frame("a", "MESSAGE", **sent)
    index, offset = story.frames[1]["a"]
    story.frames[1]["a"] = [index - 1, offset - 160]
    return story.take_frame("b", fields.pop("tag", "MESSAGE"), **sent | fields)


@pytest.mark.parametrize(
    ("fields", "differing"), [({"seq": 2}, "seq"), ({"length": 176}, "length"), ({"seq": 2, "tid": 9}, "seq, tid")]
)
def test_received_frame_that_differs_from_the_sent_one_is_reported(story, fields, differing):
    at = received_as(story, **fields)
    result = story.judge("agreement")
    assert [(v.record, v.text) for v in result.violations] == [
        (at, f"b/1: frame 4 received is MESSAGE, sent was MESSAGE; they differ in {differing}")
    ]


def test_a_frame_that_was_never_sent(story):
    story.authenticate()
    story.take_frame("b", "MESSAGE")
    assert story.texts("agreement") == ["b/1: frame 4 received is MESSAGE, which a/1 never sent"]


def test_dead_process_may_have_sent_more_than_it_recorded(story):
    story.process("a", "start")
    story.authenticate()
    story.process("a", "kill")
    story.take_frame("b", "MESSAGE")
    result = story.judge("agreement")
    assert result.ok
    assert result.note == "a died before it recorded all that it sent on a/1"


def test_mangled_stream_is_not_compared_to_its_end(story):
    received_as(story, seq=2)
    story.mangle("a", "flip", "MESSAGE", 4, byte=0)
    result = story.judge("agreement")
    assert result.ok
    assert result.note == "b/1 was changed on the way, so its ends were not compared to the end"


@pytest.mark.parametrize(("name", "other"), [("mode", "crc"), ("key", "k9"), ("revision", 0), ("tx_nonce", "x")])
def test_agreement_reports_fields_that_differ_between_the_ends(story, name, other):
    story.greet()
    story.auth("b")
    story.auth("a", **{name: other})
    story.sign_and_go_on()
    assert any(text.startswith(f"a/1: {name} is {other}") for text in story.texts("agreement"))


def test_a_link_with_one_end(story):
    story.link("b", "b/1", "accept", "a", None)
    story.frame("b", "b/1", "rx", "BANNER", 0)
    assert story.judge("agreement").note == (
        "b/1 has no other end in the history, so it was compared with nothing"
    )


@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.parametrize(("index", "offset"), [(2, 100), (1, 101)])
def test_a_gap_between_frames(story, direction, index, offset):
    story.frame("a", "a/1", direction, "BANNER", 0)
    place = {"link": "a/1", "session": 1, "direction": direction, "index": index, "offset": offset}
    story.add_record("a", "frame", **place, tag="HELLO", length=50, fields={})
    assert story.texts("decode_total") == [
        f"a/1: {direction} frame {index} at byte {offset} where 1 at 100 is due"
    ]


def test_a_capture_may_begin_anywhere(story):
    for index in (7, 8, 9):
        story.frame("a", "a/1", "rx", "MESSAGE", index)
    assert story.judge("decode_total").ok


def test_frame_after_the_close_of_a_link_is_reported(story):
    story.link("a", "a/1", "dial", "b")
    story.link("a", "a/1", "close", "b")
    story.frame("a", "a/1", "rx", "MESSAGE", 0)
    assert story.texts("decode_total") == ["a/1: MESSAGE after the end of the link"]
