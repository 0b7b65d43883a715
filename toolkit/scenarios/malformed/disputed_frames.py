"""MF: disputed rules (docs/disputes.md), a case for each setting, with a raw peer."""

from collections.abc import Callable

from messenger.denc.address import AddrVec, EntityAddr
from messenger.v2.wire import Hello, KeepAlive2, KeepAlive2Ack, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, SOON, Place, arrive, breaks, stage
from toolkit.node.raw.frames import RawFrame
from toolkit.node.raw.v2 import RawV2Link
from toolkit.scenarios.malformed import MF
from toolkit.scenarios.malformed.preambles import goes_on, proper
from toolkit.scenarios.shared.by_hand import hang_up
from toolkit.scenarios.shared.disputed import opens_or_breaks
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS, FEW_WAYS, early_and_late
from toolkit.scenarios.shared.settings import settings

_WRONG = {3, 65535}


@MF.scenario(
    "MF-06-rule",
    "segment_alignment",
    priority=2,
    rules=("segment_alignment",),
    ways=FEW_V2_WAYS,
    cases=settings("segment_alignment"),
)
def segment_alignment(lab: Lab, rule: str) -> None:
    """segment_alignment decides if alignments have to be powers of two.

    Frames whose alignments are powers of two, or 0, are accepted. Frames with alignments of 3 and of 65535 are
    accepted too, unless ``segment_alignment`` is checked, as AsyncMessenger does in effect.
    """
    peer = stage(lab, ACCEPTOR, segment_alignment=rule)
    number = 0
    for alignments in ((0, 1, 2, 32768), (3, 8, 8, 4096), (8, 8, 8, 65535)):
        for place in early_and_late(ACCEPTOR):
            link = arrive(peer, place)
            frame = proper(link, place, number + 1, alignments=alignments)
            if rule == "ignored" or not _WRONG.intersection(alignments[: len(frame.segments)]):
                number += place.state == "READY"
                link.write(frame.encode(link.seal))
                goes_on(lab, link, place, number)
            else:
                breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "FRAME", state=place.state)  # noqa: B023


@MF.scenario(
    "MF-09-rule",
    "control_segments",
    rules=("control_segments",),
    ways=FEW_V2_WAYS,
    cases=settings("control_segments"),
)
def control_segments(lab: Lab, rule: str) -> None:
    """control_segments decides if a control frame may have several segments.

    HELLO and KEEPALIVE2 arrive with other segments in front of their own. If ``control_segments`` is one, they
    break the link as malformed; otherwise, as in AsyncMessenger and crimson, the last segment counts.
    """
    peer = stage(lab, ACCEPTOR, control_segments=rule)
    for place in early_and_late(ACCEPTOR):
        for more in (1, 2, 3):
            link = arrive(peer, place)
            frame = _several(link, place, more)
            if rule == "one":
                breaks(lab, link, lambda: link.write(frame), "FRAME", state=place.state)  # noqa: B023
                continue
            link.write(frame)
            if place.before:
                link.expect(Hello)
            else:
                lab.require(
                    link.skip_to(KeepAlive2Ack) == KeepAlive2Ack(55, 66), "the last segment does not count"
                )
            hang_up(lab, link)


def _several(link: RawV2Link, place: Place, more: int) -> bytes:
    """HELLO or KEEPALIVE2 with further segments before its own."""
    if place.before:
        tag, payload = Tag.HELLO, Hello(link.name.type, link.other.addr).encode()
    else:
        tag, payload = Tag.KEEPALIVE2, KeepAlive2(55, 66).encode()
    return RawFrame(tag, (*[b"x" * len(payload)] * more, payload)).encode(link.seal)


@MF.scenario(
    "MF-17-rule",
    "peer_addresses",
    priority=2,
    rules=("peer_addresses",),
    ways=FEW_WAYS,
    cases=settings("peer_addresses"),
)
def peer_addresses(lab: Lab, rule: str) -> None:
    """peer_addresses decides if a peer may announce addresses of another host.

    A peer dials and announces an address on another host. The node accepts it, because the peer may be behind a
    NAT, or, as in crimson, the link breaks, depending on ``peer_addresses``. With both settings a peer gets its
    session with an address on the host that it dials from.
    """
    peer = stage(lab, ACCEPTOR, peer_addresses=rule)
    own = peer.spec.addrs.front
    elsewhere = EntityAddr.from_host("127.7.7.7", own.port, own.type).with_nonce(own.nonce)
    link = peer.dial("a").pretend(AddrVec((elsewhere,)))
    opens_or_breaks(lab, peer, link, opens=rule == "any")


@MF.scenario(
    "MF-18-rule",
    "peer_identity",
    priority=2,
    rules=("peer_identity",),
    ways=FEW_WAYS,
    cases=settings("peer_identity"),
)
def peer_identity(lab: Lab, rule: str) -> None:
    """peer_identity decides if addresses alone identify a peer.

    osd.2 has a session with a node. osd.3, authenticated as osd.3, dials and announces osd.2's addresses. If
    ``peer_identity`` is name, the session belongs to the name osd.2, and the link of osd.3 breaks; otherwise, as
    in AsyncMessenger, it belongs to the addresses: osd.2 loses its link, and the application gets a reset event.
    """
    b = lab.raw("b", "osd.2")
    c = lab.raw("c", "osd.3")
    lab.node("a", "osd.1", "lossless_peer_reuse", peer_identity=rule, **SOON)
    lab.start()
    link = b.dial("a").handshake()
    link.send_messages(1, 2)
    lab.expect_delivered("b", "a", 2)
    before = lab.session("a", "b")
    other = c.dial("a").pretend(b.spec.addrs)
    other.global_seq = 9
    if isinstance(other, RawV2Link):
        other.client_cookie = 77
    dial: Callable[[], object] = other.handshake
    if rule == "name":
        breaks(lab, other, dial, "PEER_IDENTITY")
        lab.require(lab.session("a", "b") == before, "the session of osd.2 is not what it was")
        lab.require(not link.closed, "osd.2 has lost its link")
        link.send_messages(3)
        lab.expect_delivered("b", "a", 3)
        lab.expect_no_event("a", "b", "remote_reset")
        return
    dial()
    lab.expect_event("a", "b", "remote_reset")
    link.expect_closed()
