"""Relations between the links, sessions and nodes of a history."""

from toolkit.checks.index import Index

A_ADDR = "v2:10.0.0.1:40112/0"
B_ADDR = "v2:10.0.0.2:6800/1"


def talk(story, number, *, hello, session=1):
    """A link with its banners and HELLOs, recorded by both ends; addresses do not name the nodes."""
    a, b = f"a/{number}", f"b/{number}"
    story.link("a", a, "dial", B_ADDR, session)
    story.link("b", b, "accept", A_ADDR, None)
    for index, (tag, fields) in enumerate([("BANNER", {}), ("HELLO", {"peer_addr": hello})]):
        story.frame("a", a, "tx", tag, index, session=session)
        story.frame("b", b, "rx", tag, index, session=None)
        story.frame("b", b, "tx", tag, index, session=None, **fields)
        story.frame("a", a, "rx", tag, index, session=session, **fields)
    story.frame("b", b, "tx", "SERVER_IDENT", 2, session=session)


def pairs(story):
    index = Index(story.history)
    return {key.link: log.far.key.link for key, log in index.links.items() if log.far is not None}


def test_links_are_paired_by_their_frames(story):
    """Two links at once: only the HELLO says which end is whose."""
    story.link("a", "a/1", "dial", B_ADDR)
    story.link("a", "a/2", "dial", B_ADDR)
    story.link("b", "b/1", "accept", A_ADDR, None)
    story.link("b", "b/2", "accept", A_ADDR, None)
    for a, b, port in (("a/1", "b/2", 1111), ("a/2", "b/1", 2222)):
        story.frame("b", b, "tx", "BANNER", 0)
        story.frame("a", a, "rx", "BANNER", 0)
        for index in (1, 2):
            story.frame("b", b, "tx", "HELLO", index, port=port)
            story.frame("a", a, "rx", "HELLO", index, port=port)
    assert pairs(story) == {"a/1": "b/2", "b/2": "a/1", "a/2": "b/1", "b/1": "a/2"}


def test_links_without_a_common_frame_are_not_paired(story):
    story.link("a", "a/1", "dial", B_ADDR)
    story.link("b", "b/1", "accept", A_ADDR, None)
    assert pairs(story) == {}


def test_a_closed_dial_is_not_the_other_end(story):
    story.link("a", "a/1", "dial", B_ADDR)
    story.frame("a", "a/1", "tx", "BANNER", 0)
    story.link("a", "a/1", "close", B_ADDR)
    story.link("a", "a/2", "dial", B_ADDR)
    story.frame("a", "a/2", "tx", "BANNER", 0)
    story.link("b", "b/1", "accept", A_ADDR, None)
    story.frame("b", "b/1", "rx", "BANNER", 0)
    assert pairs(story) == {"a/2": "b/1", "b/1": "a/2"}


def test_sessions_find_each_other_through_their_links(story):
    talk(story, 1, hello="p1")
    story.open("b", "stateful_server", peer=A_ADDR)
    story.open("a", "lossless_client", peer=B_ADDR)
    index = Index(story.history)
    nodes = {log.node: log.peer_node for log in index.sessions.values()}
    assert nodes == {"a": "b", "b": "a"}
    a, b = index.sessions
    assert index.sessions[a].partners == {b}
    assert index.sessions[b].partners == {a}
    assert index.sessions[a].dialled


def test_an_address_that_was_reached_once_is_known(story):
    """A session that never got a link is with the node that another session found at its address."""
    talk(story, 1, hello="p1")
    story.state("a", 7, "CONNECTING", peer=f"[{B_ADDR},v1:10.0.0.2:6801/1]")
    index = Index(story.history)
    assert [log.peer_node for log in index.sessions.values() if log.key.session == 7] == ["b"]


def test_addresses_announced_by_the_runner(story):
    story.process("b", "start", addrs=f"{B_ADDR},v1:10.0.0.2:6801/1")
    story.state("a", 1, "CONNECTING", peer=B_ADDR)
    index = Index(story.history)
    (log,) = index.sessions.values()
    assert log.peer_node == "b"
    assert index.name(log) == "a session 1"


def test_one_life_needs_no_number(story):
    story.process("a", "start")
    story.open("a", "lossless_peer")
    index = Index(story.history)
    assert [index.name(log) for log in index.sessions.values()] == ["a session 1"]


def test_restarts_keep_the_name_and_start_the_numbers_again(story):
    story.process("a", "start")
    story.open("a", "lossless_peer")
    story.process("a", "start", 2)
    story.open("a", "lossless_peer")
    story.rest("a")
    index = Index(story.history)
    logs = list(index.sessions.values())
    assert [index.name(log) for log in logs] == [
        "a (incarnation 1) session 1",
        "a (incarnation 2) session 1",
    ]
    assert [index.is_open(log) for log in logs] == [False, True]
    assert index.alive("a")


def test_at_rest_needs_every_living_node(story):
    story.process("b", "start")
    story.pair()
    story.rest("a")
    assert not Index(story.history).at_rest
    story.process("b", "kill")
    assert Index(story.history).at_rest
