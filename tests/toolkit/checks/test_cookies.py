"""The check of cookies on hand-made histories."""


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
