"""The check of what stays in use, on hand-made histories."""

import pytest

NOTHING = {"timers": 1, "receive_bytes": 0, "unwritten_bytes": 0, "sockets": 1}


def test_one_link_one_timer_one_socket(story):
    story.pair()
    story.rest(**NOTHING)
    assert (story.judge("quiescence").violations, story.judge("quiescence").note) == ([], "")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"links": 2, "sockets": 2}, "a has 2 links at rest, but only 1 open sessions"),
        ({"timers": 2}, "a has 2 timers at rest, but only 1 links"),
        ({"sockets": 2}, "a has 2 sockets at rest, but 1 links"),
        ({"receive_bytes": 7}, "a has receive_bytes 7 at rest"),
        ({"unwritten_bytes": 7}, "a has unwritten_bytes 7 at rest"),
    ],
)
def test_leftovers_at_rest_are_reported(story, fields, text):
    story.pair()
    story.rest("b", **NOTHING)
    story.rest("a", **NOTHING | fields)
    assert story.texts("quiescence") == [text]
    assert story.texts("INV-11") == [text]


def test_resources_of_a_node_that_is_shut_down_are_reported(story):
    story.process("a", "start")
    story.pair()
    story.process("a", "stop")
    story.rest("b", **NOTHING)
    story.rest("a", registry=0, links=0, timers=3, sockets=1)
    assert story.texts("quiescence") == ["a is shut down, but still has 3 timers, 1 sockets"]


def test_run_without_rest_is_not_judged_for_quiescence(story):
    story.pair()
    assert story.judge("quiescence").note == "the run did not come to rest, so what stayed in use was not judged"


def test_nodes_with_fewer_records(story):
    story.pair()
    story.rest()
    assert story.judge("quiescence").note == (
        "a does not record its timers and buffers; b does not record its timers and buffers"
    )
