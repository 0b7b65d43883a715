"""The check of cookies on hand-made histories."""

import pytest

from messenger.v2.wire import FLAG_LOSSY


def ident(story, number=1, *, client=0xC0, server=0x5E, flags=0):
    story.pass_frame("a", "CLIENT_IDENT", number=number, client_cookie=client, flags=flags)
    story.pass_frame("b", "SERVER_IDENT", number=number, server_cookie=server, flags=flags)


def test_one_session_and_its_reconnect(story):
    story.wire()
    ident(story)
    story.pair()
    story.wire(2)
    story.pass_frame("a", "SESSION_RECONNECT", number=2, client_cookie=0xC0, server_cookie=0x5E)
    story.pass_frame("b", "SESSION_RECONNECT_OK", number=2)
    story.state("b")
    story.state("a")
    assert story.judge("cookies").ok


@pytest.mark.parametrize(
    ("client", "server", "flags", "text"),
    [
        (0, 0x5E, 0, "a/1: CLIENT_IDENT of a lossless session has no client_cookie"),
        (0xC0, 0, 0, "b/1: SERVER_IDENT of a lossless session has no server_cookie"),
        (0xC0, 0, FLAG_LOSSY, "a/1: CLIENT_IDENT of a lossy session has a client_cookie"),
        (0, 0x5E, FLAG_LOSSY, "b/1: SERVER_IDENT of a lossy session has a server_cookie"),
    ],
)
def test_a_cookie_where_it_is_due(story, client, server, flags, text):
    story.wire()
    ident(story, client=client, server=server, flags=flags)
    assert story.texts("cookies") == [text]


def test_a_server_cookie_that_was_given_out_before(story):
    for number in (1, 2):
        story.wire(number)
        ident(story, number)
    assert story.texts("cookies") == ["b/2: server_cookie 5e was given out before"]


def test_two_sessions_with_one_client_cookie(story):
    for session in (1, 2):
        story.frame("a", f"a/{session}", "tx", "CLIENT_IDENT", 0, session=session, client_cookie=0xC0, flags=0)
    assert story.texts("cookies") == ["a/2: client_cookie c0 of session 2 is that of session 1"]


def test_an_open_session_with_half_of_its_cookies(story):
    story.open("a", "lossless_peer", cookies={"client_cookie": 0xC0, "server_cookie": 0})
    assert story.texts("cookies") == ["a session 1 is open with a client_cookie, but no server_cookie"]


def test_v1_has_none(story):
    story.open("a", "lossless_peer", cookies={"client_cookie": 0, "server_cookie": 0})
    assert story.judge("cookies").ok


def test_a_reconnect_that_ends_in_another_session(story):
    story.pair()
    story.wire()
    story.pass_frame("a", "SESSION_RECONNECT", client_cookie=0xC0, server_cookie=0x5E)
    story.pass_frame("b", "SESSION_RECONNECT_OK")
    story.state("a", server_cookie=0x77)
    assert story.texts("cookies") == ["a session 1: server_cookie is 77 after a reconnect of session 5e"]


def test_a_reset_that_keeps_a_cookie(story):
    story.pair()
    story.event("a", "remote_reset")
    story.state("a", client_cookie=0xC1)
    assert story.texts("cookies") == ["a session 1 has the server_cookie it had before its remote_reset"]


def test_a_reset_with_new_cookies(story):
    story.pair()
    story.event("a", "remote_reset")
    story.state("a", client_cookie=0xC1, server_cookie=0x5F)
    assert story.judge("cookies").ok
