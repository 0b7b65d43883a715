"""The check of verdicts on racing dials, on hand-made histories: a has the lower address, and decides."""

import pytest

ADDRS = {"a": "v2:10.0.0.1:6800/11", "b": "v2:10.0.0.2:6800/12"}
COOKIES = {"client_cookie": 7, "server_cookie": 8}


@pytest.fixture
def race(story):
    """A story of two processes with known addresses."""
    for name, addrs in ADDRS.items():
        story.process(name, "start", addrs=addrs)
    return story


def session(story, state, node="a", **fields):
    """Record a state of session 1 of a node."""
    story.state(node, state=state, **({"connect_seq": 1, **COOKIES} | fields))


def asked(story, verdict, tag="SESSION_RECONNECT", node="a", link="a/1", **fields):
    """Record the peer's request on a link of a node, and what the node decides about its session 1."""
    story.link(node, link, "accept", "b" if node == "a" else "a")
    story.frame(node, link, "rx", tag, 5, **({"connect_seq": 1, **COOKIES} | fields))
    story.add_record(node, "decision", link=link, session=1, verdict=verdict, why="")


def texts(story):
    return story.texts("race_verdict")


def test_a_racing_dial_with_the_same_connect_seq_waits(race):
    session(race, "CONNECTING")
    asked(race, "WAIT")
    assert texts(race) == []


def test_a_dial_that_is_ahead_does_not_wait(race):
    session(race, "CONNECTING")
    asked(race, "WAIT", connect_seq=2)
    assert texts(race) == ["a/1 receives WAIT: its connect_seq is 2, that of the session 1"]


def test_connect_seq_is_that_of_the_sessions_own_dial(race):
    """A reset of the session in a handshake is not recorded before a link opens."""
    session(race, "CONNECTING")
    race.link("a", "a/2", "dial", "b")
    race.frame("a", "a/2", "rx", "CONNECT_REPLY", 3, tag="RESETSESSION")
    asked(race, "WAIT", "CONNECT", connect_seq=5)
    assert texts(race) == [], "nobody knows it yet"
    race.frame("a", "a/2", "tx", "CONNECT", 4, connect_seq=0)
    asked(race, "WAIT", "CONNECT", connect_seq=0, link="a/3")
    assert texts(race) == []
    asked(race, "WAIT", "CONNECT", connect_seq=1, link="a/4")
    assert texts(race) == ["a/4 receives WAIT: its connect_seq is 1, that of the session 0"]


def test_a_dial_with_another_server_cookie_may_wait(race):
    session(race, "CONNECTING")
    asked(race, "WAIT", connect_seq=2, server_cookie=9)
    assert texts(race) == []


@pytest.mark.parametrize(("state", "verdict"), [("READY", "WAIT"), ("STANDBY", "WAIT"), ("CONNECTING", "")])
def test_a_session_at_rest_does_not_let_a_new_dial_wait(race, state, verdict):
    session(race, state)
    asked(race, "WAIT", "CLIENT_IDENT", client_cookie=99)
    assert bool(texts(race)) is bool(verdict)


def test_a_server_lets_nothing_wait(race):
    session(race, "CONNECTING", policy="stateful_server")
    asked(race, "WAIT")
    assert texts(race) == ["a/1 receives WAIT: a server never dials"]


def test_while_another_link_takes_over_every_dial_waits(race):
    session(race, "READY")
    asked(race, "REUSE", "CLIENT_IDENT")
    asked(race, "WAIT", "CLIENT_IDENT", link="a/2")
    assert texts(race) == []


def test_v1_retries_with_a_session_that_is_open(race):
    session(race, "STANDBY", client_cookie=0, server_cookie=0)
    asked(race, "RETRY_SESSION", "CONNECT")
    assert texts(race) == []


def test_v1_does_not_retry_while_both_dial(race):
    session(race, "CONNECTING", client_cookie=0, server_cookie=0)
    asked(race, "RETRY_SESSION", "CONNECT")
    assert texts(race) == ["a/1 receives RETRY_SESSION: the session is CONNECTING, so both dials race"]


@pytest.mark.parametrize(
    ("tag", "fields"),
    [("SESSION_RECONNECT", {}), ("CONNECT", {}), ("CLIENT_IDENT", {"client_cookie": 99})],
)
def test_the_winner_of_a_race_does_not_give_way(race, tag, fields):
    session(race, "CONNECTING", server_cookie=0 if tag == "CLIENT_IDENT" else 8)
    asked(race, "REUSE", tag, **fields)
    assert texts(race) == ["a/1 takes over a session 1, whose dial has won by its address"]


def test_a_peer_that_read_the_sessions_own_ident_may_take_over(race):
    session(race, "CONNECTING", client_cookie=0, server_cookie=0)
    race.link("a", "a/2", "dial", "b")
    race.frame("a", "a/2", "tx", "CLIENT_IDENT", 5, client_cookie=99)
    asked(race, "REUSE", "CLIENT_IDENT", client_cookie=99)
    assert texts(race) == []


def test_the_loser_gives_way(race):
    session(race, "CONNECTING", "b")
    asked(race, "REUSE", node="b", link="b/1")
    assert texts(race) == []


def broken_after_a_wait(story, reason):
    session(story, "CONNECTING")
    asked(story, "WAIT")
    story.fault("a", 2, reason)


@pytest.mark.parametrize(("reason", "may"), [("EOF", True), ("RACE", False)])
def test_the_winner_gives_way_once_its_dial_has_failed(race, reason, may):
    broken_after_a_wait(race, reason)
    asked(race, "REUSE", link="a/3")
    assert (not texts(race)) is may


def test_a_race_that_is_over_does_not_count_in_the_next_one(race):
    broken_after_a_wait(race, "EOF")
    session(race, "READY")
    session(race, "CONNECTING")
    asked(race, "REUSE", link="a/3")
    assert texts(race) == ["a/3 takes over a session 1, whose dial has won by its address"]
