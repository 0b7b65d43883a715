"""RS: disputed rules (docs/disputes.md), a case for each setting, with a raw peer."""

from messenger.v2.wire import ClientIdent, SessionReconnectOk, SessionReset
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, breaks
from toolkit.scenarios.session_reset import RS
from toolkit.scenarios.shared.by_hand import asked, hang_up, messages, opened, resume
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS
from toolkit.scenarios.shared.settings import settings


@RS.scenario(
    "RS-02-rule",
    "partial_reset_obeyed",
    rules=("partial_reset",),
    ways=FEW_V2_WAYS,
    cases=settings("partial_reset"),
)
def partial_reset(lab: Lab, rule: str) -> None:
    """partial_reset decides if a SESSION_RESET that is not full keeps the queue.

    A client resumes its session and gets a SESSION_RESET that is not full. It sends CLIENT_IDENT on the same link,
    or, as the kernel does, takes it for a fault and dials again, depending on ``partial_reset``. With both
    settings no queued message is lost and no reset event is raised.
    """
    peer, link = opened(lab, CONNECTOR, partial_reset=rule)
    lab.send("a", "b", 2)
    lab.require([message.tid for message in messages(link)] == [1, 2], "two messages did not come")
    hang_up(lab, link)
    link = peer.accept("a")
    wish = asked(lab, link)
    if rule == "fault":
        breaks(lab, link, lambda: link.send(SessionReset(full=False)), "UNEXPECTED_FRAME")
        link = peer.accept("a")
        resume(lab, link, asked(lab, link), 0)
    else:
        link.send(SessionReset(full=False))
        again = link.expect(ClientIdent)
        lab.require(again.client_cookie == wish.client_cookie, "it identifies itself as somebody else")
        link.send(link.server_ident())
    lab.require([message.tid for message in messages(link)] == [1, 2], "what was queued does not come again")
    lab.expect_no_event("a", "b", "remote_reset")


@RS.scenario(
    "RS-07-rule",
    "reconnect_cookies",
    priority=2,
    rules=("reconnect_cookies",),
    ways=FEW_V2_WAYS,
    cases=settings("reconnect_cookies"),
)
def reconnect_cookies(lab: Lab, rule: str) -> None:
    """reconnect_cookies decides which cookies SESSION_RECONNECT has to match.

    The link of a session breaks, and the peer resumes it with the right client_cookie and another server_cookie,
    as after two dials that replaced each other. If both cookies must match, the node answers with a reset that is
    not full, and the peer sends CLIENT_IDENT again; if the client_cookie is enough, as in AsyncMessenger and
    crimson, the session resumes. ``reconnect_cookies`` decides.
    """
    peer, link = opened(lab, ACCEPTOR, policy="lossless_peer", reconnect_cookies=rule)
    hang_up(lab, link)
    again = peer.dial("a")
    again.handshake(until=again.ident)
    again.global_seq = link.global_seq + 1
    again.client_cookie = link.client_cookie
    again.server_cookie = link.server_cookie
    again.send(again.session_reconnect(server_cookie=link.server_cookie ^ 1))
    if rule == "client":
        again.expect(SessionReconnectOk)
    else:
        lab.require(not again.expect(SessionReset).full, "the reset is full")
        again.ident()
    lab.expect_state("a", "b", "READY")
    lab.expect_no_event("a", "b", "remote_reset")
