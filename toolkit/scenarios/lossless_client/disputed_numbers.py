"""LC: disputed rules (docs/disputes.md), a case for each setting, with a raw peer."""

from messenger.v2.wire import ClientIdent, SessionReset
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, breaks
from toolkit.scenarios.lossless_client import LC
from toolkit.scenarios.shared.by_hand import asked, hang_up, opened
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS
from toolkit.scenarios.shared.settings import settings


@LC.scenario(
    "LC-08-rule",
    "server_number",
    priority=2,
    rules=("server_number",),
    ways=FEW_V2_WAYS,
    cases=settings("server_number"),
)
def server_number(lab: Lab, rule: str) -> None:
    """server_number decides if a session survives a server with another gid.

    A client resumes its session, gets a reset that is not full, sends CLIENT_IDENT, and gets SERVER_IDENT with
    another gid. It takes over the new gid, or, as crimson does, ends the session with a reset event, depending on
    ``server_number``.
    """
    peer, link = opened(lab, CONNECTOR, server_number=rule)
    hang_up(lab, link)
    link = peer.accept("a")
    asked(lab, link)
    link.send(SessionReset(full=False))
    link.expect(ClientIdent)
    ident = link.server_ident(gid=link.name.num + 1)
    if rule == "close":
        breaks(lab, link, lambda: link.send(ident), "PEER_NUMBER")
        lab.expect_event("a", "b", "reset")
        lab.expect("a", "registry", 0)
        return
    link.send(ident)
    lab.expect_state("a", "b", "READY")
    lab.expect_no_event("a", "b", "reset")
