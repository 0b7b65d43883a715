"""KA: disputed rules (docs/disputes.md), a case for each setting, with a raw peer."""

from messenger.v1.wire import KeepAlive2 as V1KeepAlive2
from messenger.v1.wire import KeepAlive2Ack as V1KeepAlive2Ack
from messenger.v2.wire import KeepAlive2, KeepAlive2Ack
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, breaks
from toolkit.scenarios.keepalive import KA
from toolkit.scenarios.shared.by_hand import hang_up, opened
from toolkit.scenarios.shared.settings import settings


@KA.scenario("KA-01-rule", "server_keepalive", rules=("server_keepalive",), cases=settings("server_keepalive"))
def server_keepalive(lab: Lab, rule: str) -> None:
    """server_keepalive decides if a client answers KEEPALIVE2 of a server.

    The peer sends KEEPALIVE2 on a link that the node dialled. The node answers with the same timestamp, or, as the
    kernel does, breaks the link, depending on ``server_keepalive``. On a link that the node accepted it answers
    with both settings.
    """
    question, answer = (V1KeepAlive2, V1KeepAlive2Ack) if lab.is_v1 else (KeepAlive2, KeepAlive2Ack)
    peer, link = opened(lab, CONNECTOR, policy="lossless_peer", server_keepalive=rule)
    if rule == "fault":
        breaks(lab, link, lambda: link.send(question(11, 22)), "UNEXPECTED_FRAME")
    else:
        link.send(question(11, 22))
        lab.require(link.skip_to(answer) == answer(11, 22), "the answer has another stamp")
        hang_up(lab, link)
    lab.expect_state("a", "b", "STANDBY")
    accepted = peer.dial("a").handshake()
    accepted.send(question(33, 44))
    lab.require(accepted.skip_to(answer) == answer(33, 44), "the answer has another stamp")
