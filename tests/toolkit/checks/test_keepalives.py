"""The check of keepalives on hand-made histories: every 10 s, 30 s of silence are allowed, and two ticks."""

import pytest


class Talk:
    def __init__(self, story, *, timeout_s=30.0):
        self.story = story
        story.add_record("a", "keepalive", session=1, peer="b", interval_s=10.0, timeout_s=timeout_s)
        story.link("a", "a/1", "dial", "b")

    def frame(self, time_s, direction, tag, stamp):
        fields = {"seconds": stamp, "nanoseconds": 0}
        where = {"link": "a/1", "session": 1, "direction": direction, "index": 0, "offset": 0, "length": 44}
        self.story.history.append(time_s, "a", "frame", **where, tag=tag, fields=fields)

    def ask(self, *times_s):
        for time_s in times_s:
            self.frame(time_s, "tx", "KEEPALIVE2", time_s)

    def answer(self, time_s, stamp):
        self.frame(time_s, "rx", "KEEPALIVE2_ACK", stamp)

    def close(self, time_s):
        self.story.history.append(time_s, "a", "link", link="a/1", action="close", peer="b", session=1)

    def verdict(self):
        return self.story.texts("keepalive")


def test_every_question_is_answered(story):
    talk = Talk(story)
    for time_s in (10, 20, 30, 40, 50, 60, 70):
        talk.ask(time_s)
        talk.answer(time_s + 1, time_s)
    assert talk.verdict() == []


@pytest.mark.parametrize(("closed_s", "ok"), [(50, True), (71, False)])
def test_a_silent_peer(story, closed_s, ok):
    talk = Talk(story)
    talk.ask(10)
    talk.answer(11, 10)
    talk.ask(20, 30, 40, 50, 60, 70)
    talk.close(closed_s)
    silence = f"a/1 is kept although its peer is silent for {closed_s - 10} s, 50 s are allowed"
    assert talk.verdict() == ([] if ok else [silence])


def test_a_peer_that_never_answers(story):
    talk = Talk(story)
    talk.ask(10, 20, 30)
    story.history.append(80, "b", "process", action="stop", incarnation=1)
    assert talk.verdict() == ["a/1 is kept although its peer is silent for 70 s, 50 s are allowed"]


def test_an_answer_that_comes_much_too_late(story):
    talk = Talk(story)
    talk.ask(10)
    talk.answer(75, 10)
    assert len(talk.verdict()) == 1


def test_without_a_timeout_nothing_is_due(story):
    talk = Talk(story, timeout_s=0.0)
    talk.ask(10)
    talk.close(500)
    assert talk.verdict() == []


def test_keepalive_without_records_of_the_peer_is_allowed(story):
    story.link("a", "a/1", "dial", "b")
    story.frame("a", "a/1", "tx", "KEEPALIVE2", 0, seconds=1, nanoseconds=0)
    assert story.judge("keepalive").ok


@pytest.mark.parametrize("until", ["thaw", "the end"])
def test_frozen_node_need_not_detect_a_silent_peer(story, until):
    talk = Talk(story)
    talk.ask(10)
    talk.answer(11, 10)
    story.history.append(15, "a", "process", action="freeze", incarnation=1)
    if until == "thaw":
        story.history.append(95, "a", "process", action="thaw", incarnation=1)
        talk.answer(96, 10)
        talk.ask(97)
        talk.answer(98, 97)
        talk.close(160)
        assert talk.verdict() == ["a/1 is kept although its peer is silent for 63 s, 50 s are allowed"]
    else:
        talk.close(95)
        assert talk.verdict() == []
