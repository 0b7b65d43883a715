"""MF: frames with unknown tags, or with tags that the state does not accept."""

from collections.abc import Iterable

from messenger.denc.features import MSGR2_SUPPORTED
from messenger.v1.wire import REPLY_TAGS
from messenger.v1.wire import Tag as V1Tag
from messenger.v2.wire import Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import V1_PLACES, Place, arrive, breaks, stage, v2_samples
from toolkit.node.raw.peer import RawPeer
from toolkit.node.raw.v1 import RawV1Link
from toolkit.node.raw.v2 import RawV2Link
from toolkit.scenarios.malformed import MF
from toolkit.scenarios.shared.node_states import FEW_WAYS, ROLES, places_of

_UNKNOWN = (0, 23, 24, 99, 255)
_V1_UNKNOWN = (0, 17, 99, 255)
_V1_STREAM = frozenset(
    {V1Tag.CLOSE, V1Tag.MSG, V1Tag.ACK, V1Tag.KEEPALIVE, V1Tag.KEEPALIVE2, V1Tag.KEEPALIVE2_ACK}
)
_NOISE = (b"\0", b"\xff", bytes(300), b"\xff" * 300, b"\x07" * 300, b"GET / HTTP/1.1\r\n\r\n")


def _place_link(peer: RawPeer, place: Place) -> RawV2Link:
    options = {"features": MSGR2_SUPPORTED} if "COMPRESSION" in place.state else {}
    link = arrive(peer, place, options)
    assert isinstance(link, RawV2Link)
    return link


def _send(link: RawV2Link, tag: int) -> None:
    sample = v2_samples(link).get(tag)
    if tag == Tag.MESSAGE:
        link.send_messages(1)
    elif sample is not None:
        link.send(sample)
    else:
        link.write(link.writer.control(tag, bytes(8)))


def _open_once(peer: RawPeer, place: Place) -> None:
    """Prepare a state that needs an earlier session."""
    if place.resumes:
        link = peer.accept("a")
        link.handshake()
        link.hang_up()


@MF.scenario("MF-01", "unknown_tag", priority=2, cases=ROLES, ways=FEW_WAYS)
def unknown_tag(lab: Lab, role: str) -> None:
    """An unknown tag breaks the link in every state.

    In each state of its links, connecting or accepting, a node gets a frame with an undefined tag: 0, numbers
    behind the last one, 255. Each breaks its link with the fault UNKNOWN_TAG, which names the state, and the node
    goes on with other links. On v1, where only replies and the stream have tags, the same holds for those.
    """
    peer = stage(lab, role)
    if lab.is_v1:
        for place in (place for place in V1_PLACES if place.role == role and _has_tags(place)):
            for tag in _V1_UNKNOWN:
                link = arrive(peer, place)
                if place.before == "connect":
                    link.authenticated()
                breaks(lab, link, lambda: link.write(bytes([tag] * 26)), "UNKNOWN_TAG")  # noqa: B023
        return
    for place in places_of(role):
        _open_once(peer, place)
        for tag in _UNKNOWN:
            link = _place_link(peer, place)
            breaks(lab, link, lambda: _send(link, tag), "UNKNOWN_TAG", state=place.state)  # noqa: B023 - called at once


def _has_tags(place: Place) -> bool:
    return place.state in {"CONNECTING_SEND_CONNECT_MSG", "OPENED"}


@MF.scenario("MF-02", "wrong_state_tag", cases=ROLES, ways=FEW_WAYS, quick=False)
def wrong_state_tag(lab: Lab, role: str) -> None:
    """A frame that the current state does not accept breaks the link; one that it accepts is handled.

    A raw peer brings links of a node into each state that receives anything, and sends every well-formed frame
    there, one for each link. Frames that the protocol allows in that state are handled. All others break the link
    as unexpected, the fault names the state, and nothing is delivered. On v1 the same is done with the tags of
    replies and of the stream, and with random bytes where there are no tags.
    """
    peer = stage(lab, role)
    if lab.is_v1:
        _v1_tags(lab, peer, role)
        return
    for place in places_of(role):
        _open_once(peer, place)
        # Accepted frames may change the session, and with it the state of the next link: they come last, and
        # those that open the session at the very end.
        for tag in sorted(Tag, key=lambda tag: (tag in place.takes, tag is Tag.SERVER_IDENT)):
            if tag in place.takes:
                _taken(lab, peer, place, tag)
            else:
                link = _place_link(peer, place)
                breaks(lab, link, lambda: _send(link, tag), "UNEXPECTED_FRAME", state=place.state)  # noqa: B023
                lab.require(lab.last_fault("a").endswith(f": {tag.name}"), f"{lab.last_fault('a')} to {tag.name}")


def _taken(lab: Lab, peer: RawPeer, place: Place, tag: int) -> None:
    """Require that a frame is accepted by its tag; it may be refused for its contents."""
    if place.resumes:
        _resumable(lab, peer)
    link = _place_link(peer, place)
    closes, faults = lab.closes("a"), len(lab.faults("a"))
    _send(link, tag)
    link.rest(0.01)
    link.hang_up()
    lab.expect_closes("a", closes + 1)
    reasons = lab.faults("a")[faults:]  # a refused connector gets the refusal, and closes the link
    lab.require(
        bool(reasons) and not {"UNEXPECTED_FRAME", "UNKNOWN_TAG"}.intersection(reasons),
        f"{Tag(tag).name} in {place.state}: {lab.last_fault('a')}",
    )


def _resumable(lab: Lab, peer: RawPeer) -> None:
    """Open the session again, so that the next link can resume it."""
    link = peer.accept("a")
    link.handshake()
    lab.expect_state("a", "b", "READY")
    before = len(lab.faults("a"))
    link.hang_up()
    lab.expect_fault_count("a", before + 1)


# ---- v1


def _v1_tags(lab: Lab, peer: RawPeer, role: str) -> None:
    for place in places_of(role, v1=True):
        if place.state == "OPENED":
            _each(lab, peer, place, V1Tag, _V1_STREAM)
        elif place.before == "connect" and role == "connector":
            _each(lab, peer, place, V1Tag, REPLY_TAGS)
        else:
            _noise(lab, peer, place)


def _each(lab: Lab, peer: RawPeer, place: Place, tags: Iterable[V1Tag], taken: frozenset[V1Tag]) -> None:
    for tag in sorted(tags, key=lambda tag: (tag in taken, tag is V1Tag.CLOSE)):  # CLOSE ends the session
        link = arrive(peer, place)
        assert isinstance(link, RawV1Link)
        before = len(lab.faults("a"))
        if tag in taken:
            _send_v1(link, tag)
            lab.wait(0.01)
            link.hang_up()
            lab.expect_fault_count("a", before + 1)
            reason = lab.faults("a")[-1]
            lab.require(reason != "UNEXPECTED_FRAME", f"{tag.name} in {place.state}: {lab.last_fault('a')}")
        else:
            if place.before:
                link.authenticated()
            breaks(lab, link, lambda: link.write(bytes([tag] * 26)), "UNEXPECTED_FRAME", state=place.state)  # noqa: B023


def _send_v1(link: RawV1Link, tag: V1Tag) -> None:
    """Send a v1 reply as a proper peer would, or a piece of the stream."""
    if tag is V1Tag.MSG:
        link.send_messages(1)
    elif tag in _V1_STREAM:
        link.write(bytes([tag]) + bytes(8 * (tag in {V1Tag.ACK, V1Tag.KEEPALIVE2, V1Tag.KEEPALIVE2_ACK})))
    else:
        connect, step = link.authenticated()
        numbers = {"global_seq": connect.global_seq, "connect_seq": connect.connect_seq + 1}
        link.send(link.reply_to(connect, tag, authorizer=step.payload, **numbers))


def _noise(lab: Lab, peer: RawPeer, place: Place) -> None:
    """Require that random bytes break the link, or are too few to be parsed."""
    delivered = len(lab.tids("a"))
    for raw in _NOISE:
        link = arrive(peer, place)
        before = len(lab.faults("a"))
        link.write(raw)
        lab.wait(0.01)
        closed = link.closed
        link.hang_up()
        lab.expect_fault_count("a", before + 1)
        broke = lab.faults("a")[-1] != "EOF"
        lab.require(broke if closed else lab.real_time or not broke, f"{raw[:20]!r} in {place.state}")
    lab.require(len(lab.tids("a")) == delivered, f"noise in {place.state} was delivered")
