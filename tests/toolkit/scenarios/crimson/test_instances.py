"""Connection instances and their counters, out of histories written by hand."""

from typing import Any

from toolkit.checks.history import History
from toolkit.scenarios.crimson.instances import Instances

_SEQS = ("global_seq", "peer_global_seq", "client_cookie", "server_cookie", "in_seq", "out_seq", "acked_seq")


class Story:
    """A history of node ``a``, line by line."""

    def __init__(self) -> None:
        self.history = History()
        self.instances = Instances(self.history, "a")

    def link(self, link: str, action: str, session: int | None = None) -> None:
        self._add("link", link=link, action=action, peer="b", session=session)

    def frame(self, link: str, tag: str, direction: str, session: int | None = None, **fields: Any) -> None:
        place = {"index": 0, "offset": 0, "length": 1}
        self._add("frame", link=link, session=session, direction=direction, tag=tag, fields=fields, **place)

    def stop(self, link: str, point: str, action: str) -> None:
        self._add("intercept", link=link, point=point, action=action)

    def decide(self, link: str, verdict: str, session: int | None = None) -> None:
        self._add("decision", link=link, session=session, verdict=verdict, why="")

    def state(self, session: int, state: str, connect_seq: int = 0) -> None:
        counters = dict.fromkeys((*_SEQS, "sent", "queued"), 0)
        self._add(
            "state",
            session=session,
            peer="b",
            policy="lossless_peer",
            state=state,
            connect_seq=connect_seq,
            why="",
            **counters,
        )

    def event(self, session: int, event: str) -> None:
        self._add("event", session=session, peer="b", event=event, detail="")

    def _add(self, kind: str, **fields: Any) -> None:
        self.history.append(0.0, "a", kind, **fields)

    def __str__(self) -> str:
        return str(self.instances)


def dialled(story: Story) -> None:
    story.state(1, "CONNECTING")
    story.link("a/1", "dial", 1)


def accepted(story: Story, link: str, session: int) -> None:
    story.link(link, "accept")
    story.frame(link, "CLIENT_IDENT", "rx")
    story.decide(link, "OPEN")
    story.event(session, "accept")
    story.frame(link, "SERVER_IDENT", "tx", session)
    story.state(session, "READY")


def test_a_dial_that_succeeds() -> None:
    story = Story()
    dialled(story)
    story.frame("a/1", "CLIENT_IDENT", "tx", 1)
    assert str(story) == "connecting connect (1, 1, 0, 0)"
    story.state(1, "READY")
    story.event(1, "connect")
    assert str(story) == "established connect (1, 1, 0, 1)"


def test_a_dial_that_is_broken_and_tried_again() -> None:
    story = Story()
    dialled(story)
    story.stop("a/1", "CLIENT_IDENT WRITE", "FAULT")
    story.link("a/1", "close", 1)
    story.link("a/2", "dial", 1)
    story.frame("a/2", "CLIENT_IDENT", "tx", 1)
    assert str(story) == "connecting connect (2, 2, 0, 0)"


def test_a_frame_that_is_held_counts_once() -> None:
    for way, direction in ("WRITE", "tx"), ("READ", "rx"):
        for action in "BLOCK", "STALL":
            story = Story()
            dialled(story)
            story.stop("a/1", f"SESSION_RECONNECT {way}", action)
            written = action == "STALL" and way == "WRITE"
            assert str(story) == f"connecting connect (1, 0, {0 if written else 1}, 0)"
            story.frame("a/1", "SESSION_RECONNECT", direction, 1)
            assert str(story) == "connecting connect (1, 0, 1, 0)"


def test_an_accepted_link_becomes_the_session_it_opens() -> None:
    story = Story()
    accepted(story, "a/1", 1)
    assert str(story) == "established accept (1, 1, 0, 1)"
    story.state(1, "CLOSED")
    story.event(1, "reset")
    assert str(story) == "closed accept (1, 1, 0, 1) reset (1, 0)"


def test_an_accepted_link_that_is_taken_over_is_replaced() -> None:
    story = Story()
    accepted(story, "a/1", 1)
    story.link("a/2", "accept")
    story.frame("a/2", "SESSION_RECONNECT", "rx")
    assert str(story).endswith("| accepting accept (1, 0, 1, 0)")
    story.decide("a/2", "REUSE", 1)
    story.event(1, "accept")
    story.link("a/2", "close", 1)
    assert str(story) == "established accept (1, 1, 0, 2) | replaced accept (1, 0, 1, 0)"


def test_accepted_link_without_a_session_counts_as_closed() -> None:
    story = Story()
    story.link("a/1", "accept")
    story.link("a/1", "close")
    accepted(story, "a/2", 1)
    assert str(story) == "closed accept (1, 0, 0, 0) | established accept (1, 1, 0, 1)"


def test_session_closed_before_its_event_counts_as_its_link() -> None:
    story = Story()
    story.link("a/1", "accept")
    story.decide("a/1", "OPEN")
    story.state(1, "CLOSED")
    story.link("a/1", "close", 1)
    assert str(story) == "closed accept (1, 0, 0, 0)"


def test_a_session_counts_as_connector_and_as_acceptor() -> None:
    story = Story()
    accepted(story, "a/1", 1)
    story.link("a/2", "dial", 1)
    story.frame("a/2", "SESSION_RECONNECT", "tx", 1)
    story.event(1, "connect")
    story.event(1, "remote_reset")
    assert str(story) == "established connect (1, 0, 1, 1) accept (1, 1, 0, 1) reset (0, 1)"


def test_connects_of_v1_count_once_a_link_and_kind() -> None:
    story = Story()
    dialled(story)
    for seq in (0, 0, 2, 2):
        story.frame("a/1", "CONNECT", "tx", 1, connect_seq=seq)
    assert str(story) == "connecting connect (1, 1, 1, 0)"
    story.state(1, "CONNECTING", connect_seq=3)
    story.link("a/2", "dial", 1)
    story.stop("a/2", "CONNECT WRITE", "FAULT")  # its CONNECT would follow from the session
    assert str(story) == "connecting connect (2, 1, 2, 0)"


def test_other_nodes_and_former_lives_do_not_count() -> None:
    story = Story()
    dialled(story)
    story.history.append(0.0, "b", "link", link="b/1", action="accept", peer="a", session=None)
    story.history.append(0.0, "a", "process", action="start", incarnation=2)
    assert str(story) == ""
    dialled(story)
    assert str(story) == "connecting connect (1, 0, 0, 0)"
