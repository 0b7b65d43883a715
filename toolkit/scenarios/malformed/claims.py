"""MF: malformed messages, and false identities of peers."""

from dataclasses import replace
from functools import partial

from messenger.v1.framing import HEADER
from messenger.v2.preamble import PREAMBLE_SIZE
from messenger.v2.wire import SessionReconnectOk, SessionReset, Tag
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, SOON, Place, arrive, breaks, leave, stage
from toolkit.node.raw.frames import ABORTED, COMPLETE, RawFrame
from toolkit.node.raw.peer import RawPeer
from toolkit.scenarios.malformed import MF
from toolkit.scenarios.shared.by_hand import header
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS, FEW_WAYS, ROLES, places_of
from toolkit.scenarios.shared.settings import settings

_HEADER_BYTES = 41
_OSD_MAP = 41
"""A known type of message."""


def _open(lab: Lab, role: str) -> Place:
    """The open state of that role."""
    return next(place for place in places_of(role, v1=lab.is_v1) if place.state in {"READY", "OPENED"})


@MF.scenario("MF-11", "message_header_short", cases=ROLES, ways=FEW_V2_WAYS)
def message_header_short(lab: Lab, role: str) -> None:
    """A message without a whole header is malformed.

    The first segment of MESSAGE frames has 0 to 40 bytes, alone and with a front behind it. Each breaks the link,
    and none is delivered. With 41 bytes it is a message, and further bytes are ignored.
    """
    peer = stage(lab, role)
    place = _open(lab, role)
    for size in range(_HEADER_BYTES):
        for rest in ((), (b"front",)):
            link = arrive(peer, place)
            frame = RawFrame(Tag.MESSAGE, (header()[:size], *rest))
            breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "MALFORMED", state=place.state)  # noqa: B023
    lab.require(lab.tids("a") == [], "a message without a whole header was delivered")
    link = arrive(peer, place)
    for seq, more in ((1, b""), (2, b"from the future")):
        link.write(RawFrame(Tag.MESSAGE, (header(seq) + more, b"front")).encode(link.seal))
    lab.expect_delivered("b", "a", 2)


@MF.scenario(
    "MF-12", "message_type_unknown", priority=2, rules=("unknown_message",), cases=settings("unknown_message")
)
def message_type_unknown(lab: Lab, rule: str) -> None:
    """unknown_message decides about messages of unknown types; known ones have to decode.

    Messages of types 0 and 65535 arrive between others. By default they are delivered undecoded; with other
    settings of ``unknown_message`` they are dropped but count as received, or break the link. A message of a known
    type that needs a newer decoder, or whose front does not decode, breaks the link with every setting.
    """
    peer = stage(lab, ACCEPTOR, unknown_message=rule)
    place = _open(lab, ACCEPTOR)
    for type_ in (0, 0xFFFF):
        link = arrive(peer, place)
        before = len(lab.tids("a"))
        if rule == "fault":
            breaks(lab, link, lambda: link.write(link.message(1, type_=type_)), "UNKNOWN_MESSAGE")  # noqa: B023
            continue
        link.write(link.message(1, type_=type_) + link.message(2))
        lab.expect_delivered("b", "a", before + (2 if rule == "deliver" else 1))
        lab.require(lab.tids("a")[before:] == ([1, 2] if rule == "deliver" else [2]), "the other one is missing")
        names = [record["fields"]["name"] for record in lab.messages("a", "rx")[-2:]]
        lab.require(names == [f"unknown({type_})", "ping"], f"the history has them as {names}")
        lab.wait_until(lambda: lab.session("a", "b").get("in_seq") == 2, "both count as received")
        leave(lab, link)
    link = arrive(peer, place)
    wrong = link.message(1, type_=_OSD_MAP, version=9, compat_version=9)
    breaks(lab, link, partial(link.write, wrong), "BAD_MESSAGE")
    link = arrive(peer, place)
    breaks(lab, link, lambda: link.write(link.message(1, type_=_OSD_MAP, front=b"no map")), "BAD_MESSAGE")


@MF.scenario("MF-13", "segment_crc", cases=ROLES, ways=FEW_WAYS)
def segment_crc(lab: Lab, role: str) -> None:
    """A segment with a wrong crc or tag breaks the link, and its frame is not delivered.

    In messages with header, front, middle and data each crc in turn is wrong, then a byte of each segment is
    changed. In secure mode, which has no crcs, a byte of each sealed part and of each tag is changed. The message
    before the wrong one, in the same write, is delivered.
    """
    peer = stage(lab, role)
    place = _open(lab, role)
    reason = "AUTH_TAG" if lab.is_secure else "SEGMENT_CRC"
    for part in (0.0, 0.2, 0.5, 0.8, 1.0):
        _change(lab, peer, place, part, reason)
    if lab.is_v1 or lab.is_secure:
        return
    segments = (b"f" * 200, b"m" * 200, b"d" * 200)
    for number in range(4):
        masks = tuple(1 << 9 if slot == number else 0 for slot in range(4))
        before = len(lab.tids("a"))
        link = arrive(peer, place)
        seq = 2 * len(peer.links)
        good = RawFrame(Tag.MESSAGE, (header(seq), b"front")).encode()
        bad = RawFrame(Tag.MESSAGE, (header(seq + 1), *segments), crc_masks=masks).encode()
        breaks(lab, link, partial(link.write, good + bad), "SEGMENT_CRC", state=place.state)
        lab.expect_delivered("b", "a", before + 1)


def _change(lab: Lab, peer: RawPeer, place: Place, part: float, reason: str) -> None:
    """Send a good message, and behind it one with a byte changed at a place after its preamble or header."""
    before = len(lab.tids("a"))
    link = arrive(peer, place)
    seq = 2 * len(peer.links)
    good = link.message(seq)
    bad = bytearray(link.message(seq + 1, front=b"f" * 200, middle=b"m" * 200, data=b"d" * 200))
    first = 1 + HEADER.size if lab.is_v1 else PREAMBLE_SIZE
    last = len(bad) - (9 if lab.is_v1 else 1) - 1  # on v1 flags and signature come behind the crcs
    bad[first + int((last - first) * part)] ^= 0x40
    breaks(lab, link, lambda: link.write(good + bytes(bad)), reason)
    lab.expect_delivered("b", "a", before + 1)


@MF.scenario("MF-14", "epilogue_flags", priority=2, cases=ROLES, ways=FEW_V2_WAYS)
def epilogue_flags(lab: Lab, role: str) -> None:
    """A late status other than complete and aborted breaks the link.

    Messages have each of the sixteen values of the lower half of the late status, with and without the reserved
    upper half set. A complete one is delivered. An aborted one is dropped, the link goes on, and its seq stays
    free. All others break the link. With frames of msgr 2.0 only the lowest bit stands for aborted, and no crc
    covers it: flipping it drops a message, which counts as not received.
    """
    peer = stage(lab, role)
    place = _open(lab, role)
    for low in range(16):
        for high in (0, 0xF0):
            link = arrive(peer, place)
            before, seq = len(lab.tids("a")), 2 * len(peer.links)
            raw = RawFrame(Tag.MESSAGE, (header(seq), b"front"), late_status=high | low).encode(link.seal)
            if low not in {COMPLETE, ABORTED}:
                breaks(lab, link, partial(link.write, raw), "FRAME", state=place.state)
                continue
            link.write(raw)
            link.send_messages(seq + 1) if low == COMPLETE else link.send_messages(seq)
            lab.expect_delivered("b", "a", before + (2 if low == COMPLETE else 1))
            leave(lab, link)
    if lab.is_secure:
        return
    link = arrive(peer, place, {"features": 0})
    before, seq = len(lab.tids("a")), 2 * len(peer.links)
    aborted = bytearray(link.message(seq, front=b"front"))
    aborted[-17] |= 1
    link.write(bytes(aborted) + link.message(seq, front=b"again"))
    lab.expect_delivered("b", "a", before + 1)
    lab.require(lab.tids("a")[-1] == seq, "the message that was aborted did not come again")


# ---- identities


SPOOFS = {name: {"spoof": name} for name in ("none", "name", "addresses", "cookie")}


@MF.scenario("MF-18", "reconnect_spoof", priority=2, cases=SPOOFS, ways=FEW_V2_WAYS)
def reconnect_spoof(lab: Lab, spoof: str) -> None:
    """Only the peer of a session can resume it.

    osd.2 has a session with a node, on an open link. SESSION_RECONNECT arrives on another link: from osd.2, which
    resumes its session; from osd.3 with osd.2's addresses and both cookies, which can be read on a crc link, and
    which is refused because of its name; from osd.3 with its own addresses and osd.2's cookies, for which there is
    no session; or from osd.2 with another cookie. In all but the first case the session and its link stay as they
    are.
    """
    b = lab.raw("b", "osd.2")
    c = lab.raw("c", "osd.3")
    lab.node("a", "osd.1", "lossless_peer", **SOON)
    lab.start()
    link = b.dial("a").handshake()
    link.send_messages(1, 2)
    lab.expect_delivered("b", "a", 2)
    before = lab.session("a", "b")
    cookies = {"client_cookie": link.client_cookie, "server_cookie": link.server_cookie}
    other = (c if spoof in {"name", "addresses"} else b).dial("a")
    other.handshake(until=other.ident)
    asked = other.session_reconnect(addrs=b.spec.addrs, global_seq=9, connect_seq=1, **cookies)
    if spoof == "name":
        breaks(lab, other, lambda: other.send(asked), "PEER_IDENTITY")
    elif spoof == "none":
        other.send(asked)
        lab.require(other.expect(SessionReconnectOk).msg_seq == 2, "the session that goes on is another one")
        other.send_messages(3)
        lab.expect_delivered("b", "a", 3)
        return
    else:
        other.send(
            replace(asked, addrs=c.spec.addrs) if spoof == "addresses" else replace(asked, client_cookie=77)
        )
        full = other.expect(SessionReset).full
        lab.require(full is (spoof == "addresses"), f"SESSION_RESET(full={full}) for another {spoof}")
    after = lab.session("a", "b")
    lab.require(before == after, f"the session of osd.2 was {before}, and is {after}")
    lab.require(not link.closed, "osd.2 has lost its link")
    link.send_messages(3)
    lab.expect_delivered("b", "a", 3)
    lab.expect_no_event("a", "b", "remote_reset")
