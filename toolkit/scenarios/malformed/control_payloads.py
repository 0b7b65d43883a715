"""MF: malformed payloads of control frames."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from messenger.denc.address import MOST_ADDRS, AddrVec, EntityAddr
from messenger.denc.codec import Encoder
from messenger.v2.framing import FrameWriter
from messenger.v2.wire import (
    Ack,
    AuthBadMethod,
    AuthRequest,
    CompressionRequest,
    Hello,
    KeepAlive2,
    KeepAlive2Ack,
    Tag,
)
from toolkit.errors import ScenarioFailed
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, Place, arrive, breaks, stage
from toolkit.node.raw.frames import RawFrame
from toolkit.node.raw.peer import RawPeer
from toolkit.node.raw.v2 import RawV2Link
from toolkit.scenarios.malformed import MF
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS, ROLES, early_and_late, places_of

_MANY = (1 << 31, (1 << 32) - 1, 1000)
"""Announced lengths of lists that have fewer elements."""


class Spoiler:
    """Changes the payload of the next control frame that a link writes.

    Args:
        link: the link.
        change: returns the payload to write instead.
        tag: tag of the frame to change; 0: the next one.
    """

    def __init__(self, link: RawV2Link, change: Callable[[bytes], bytes], tag: int = 0) -> None:
        self._link = link
        self._writer: FrameWriter = link.writer
        self._change = change
        self._tag = tag
        link.writer = self

    def control(self, tag: int, payload: bytes) -> bytes:
        """Encode a control frame, which has one segment."""
        if self._tag not in {0, tag}:
            return self._writer.control(tag, payload)
        self._link.writer = self._writer
        return self._writer.control(tag, self._change(payload))

    def message(self, *args: Any) -> int:  # noqa: ANN401 - as it comes
        """Append a MESSAGE frame to ``pieces``; returns its length on the wire."""
        return self._writer.message(*args)


def _next_step(link: RawV2Link, place: Place) -> None:
    """Send the frame that a proper peer sends next in that state."""
    getattr(link, place.before)()


@MF.scenario("MF-09", "control_multi_segment", cases=ROLES, ways=FEW_V2_WAYS)
def control_multi_segment(lab: Lab, role: str) -> None:
    """A control frame has one segment, and as many bytes as its fields need.

    Control frames have two, three or four segments, the proper payload in the first or in the last, in place of
    HELLO and on an open link: they break the link as malformed frames. A control frame without any payload is
    malformed too, unless it has no fields.
    """
    peer = stage(lab, role)
    for place in places_of(role):
        if place.resumes or place.before == "compression":
            continue
        for tag in sorted(place.takes - {Tag.WAIT, Tag.MESSAGE}):
            link = arrive(peer, place)
            frame = RawFrame(tag)
            breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "MALFORMED", state=place.state)  # noqa: B023
    for place in early_and_late(role):
        for more in (1, 2, 3):
            for first in (True, False):
                link = arrive(peer, place)
                payload = _payload(link, place)
                filler = [b"x"] * more if first else [b"x"] * (more - 1) + [payload]
                segments = (payload, *filler) if first else (b"x", *filler)
                frame = RawFrame(Tag.HELLO if place.before else Tag.KEEPALIVE2, segments)
                breaks(lab, link, lambda: link.write(frame.encode(link.seal)), "FRAME", state=place.state)  # noqa: B023


def _payload(link: RawV2Link, place: Place) -> bytes:
    if not place.before:
        return KeepAlive2(1, 2).encode()
    return Hello(link.name.type, link.other.addr if link.connecting else link.socket_addr).encode()


@MF.scenario("MF-10", "control_payload_truncated", cases=ROLES, ways=FEW_V2_WAYS, quick=False)
def control_payload_truncated(lab: Lab, role: str) -> None:
    """Every control frame cut at any byte is malformed; bytes after its fields are ignored.

    A proper handshake goes up to each frame, whose payload is then cut to each shorter length, from none to all
    but one byte, in a well-formed frame. Each breaks the link as malformed. With one byte and with 100 bytes more
    than its fields need, the handshake goes on.
    """
    peer = stage(lab, role)
    places = [place for place in places_of(role) if not place.resumes and place.before not in {"", "compression"}]
    for place in places:
        sent = _frame_sent(peer, place)
        for size in range(len(sent)):
            link = arrive(peer, place)
            Spoiler(link, lambda payload: payload[:size])  # noqa: B023 - used at once
            breaks(lab, link, lambda: _next_step(link, place), "MALFORMED", state=place.state)  # noqa: B023
    for place in places:
        for extra in (1, 100):
            link = arrive(peer, place)
            Spoiler(link, lambda payload: payload + b"x" * extra)  # noqa: B023
            link.handshake_from(place.before)
            lab.require(not link.closed, f"{extra} bytes more break the link in {place.state}")
            before = len(lab.faults("a"))
            link.hang_up()
            lab.expect_fault_count("a", before + 1)
    _cut_on_open_link(lab, peer, role)


def _frame_sent(peer: RawPeer, place: Place) -> bytes:
    """The payload that a proper peer sends in that state."""
    link = arrive(peer, place)
    seen: list[bytes] = []
    Spoiler(link, lambda payload: seen.append(payload) or payload[:0])  # type: ignore[func-returns-value]
    with suppress(ScenarioFailed):
        _next_step(link, place)
    link.expect_closed()
    return seen[0]


def _cut_on_open_link(lab: Lab, peer: RawPeer, role: str) -> None:
    place = next(place for place in places_of(role) if place.state == "READY")
    for frame in (Ack(0), KeepAlive2(1, 2), KeepAlive2Ack(1, 2)):
        payload = frame.encode()
        for size in range(len(payload)):
            link = arrive(peer, place)
            cut = link.writer.control(frame.TAG, payload[:size])
            breaks(lab, link, partial(link.write, cut), "MALFORMED", state=place.state)
        link = arrive(peer, place)
        link.write(link.writer.control(frame.TAG, payload + b"more"))
        link.send_messages(link.global_seq)
        link.rest(0.02)
        lab.require(not link.closed, f"{frame.TAG.name} with more than its fields breaks the link")
        before = len(lab.faults("a"))
        link.hang_up()
        lab.expect_fault_count("a", before + 1)


# ---- versions and lists


def _addr(addr: EntityAddr, *, version: int = 1, compat: int = 1, more: bytes = b"") -> bytes:
    """An entity_addr_t with another version, and with more bytes behind the known fields."""
    known = Encoder()
    addr.encode(known)
    body = known.getvalue()[7:] + more
    return b"\1" + bytes([version, compat]) + len(body).to_bytes(4, "little") + body


def _hello(link: RawV2Link, addr: bytes) -> bytes:
    return bytes([link.name.type]) + addr


@MF.scenario("MF-15", "encoding_versions", priority=2, cases=ROLES, ways=FEW_V2_WAYS)
def encoding_versions(lab: Lab, role: str) -> None:
    """Fields appended by a newer peer are skipped; a higher compat version is a fault.

    Addresses in HELLO and in idents have a higher version and more bytes behind the known fields: they decode as
    before. With a compat version above the known one they are malformed.
    """
    peer = stage(lab, role)
    hello = next(place for place in early_and_late(role) if place.before)
    for version, compat, good in ((2, 1, True), (200, 1, True), (2, 2, False), (255, 255, False)):
        link = arrive(peer, hello)
        seen = link.other.addr if link.connecting else link.socket_addr
        payload = _hello(link, _addr(seen, version=version, compat=compat, more=b"from the future"))
        Spoiler(link, lambda _payload: payload)  # noqa: B023 - used at once
        if good:
            link.handshake_from("hello")
            lab.require(not link.closed, "an address of a newer version breaks the link")
            before = len(lab.faults("a"))
            link.hang_up()
            lab.expect_fault_count("a", before + 1)
        else:
            breaks(lab, link, link.hello, "MALFORMED", state=hello.state)
    ident = next(place for place in places_of(role) if place.before == "ident" and not place.resumes)
    if role == ACCEPTOR:
        link = arrive(peer, ident)
        addrs = b"\2\1\0\0\0" + _addr(link.me.addrs.front, version=9, more=b"!")
        old = Encoder()
        link.me.addrs.encode(old)
        Spoiler(link, lambda payload: addrs + payload[len(old.getvalue()) :])
        link.ident()
        lab.expect_state("a", "b", "READY")


@MF.scenario("MF-16", "list_lengths", priority=2, cases=ROLES, ways=FEW_V2_WAYS)
def list_lengths(lab: Lab, role: str) -> None:
    """A list that announces more elements than it has bytes is malformed.

    Lists of methods, connection modes, algorithms and addresses announce 2^31 elements, 2^32 - 1, and 1000, which
    is more than they have. Each is malformed, and no memory is allocated for the announced number. An empty list
    of modes is well formed: there is no mode in common, and the refusal names the allowed ones.
    """
    peer = stage(lab, role)
    for place, frame, at in _lists(role):
        for count in _MANY:
            link = arrive(peer, place, {"features": 3} if place.before == "compression" else None)
            raw = bytearray(frame(link).encode())
            raw[at : at + 4] = count.to_bytes(4, "little")
            send = partial(link.write, link.writer.control(frame(link).TAG, bytes(raw)))
            breaks(lab, link, send, "MALFORMED", state=place.state)
    lab.expect_memory("a", 0)
    if role == CONNECTOR:
        return
    place = next(place for place in places_of(role) if place.before == "auth_request")
    link = arrive(peer, place)
    link.send(AuthRequest(2, [], b""))
    refusal = link.expect(AuthBadMethod)
    lab.require(bool(refusal.allowed_methods and refusal.allowed_modes), f"{refusal} allows nothing")
    lab.require(not link.closed, "an empty list of modes breaks the link")


def _lists(role: str) -> list[tuple[Place, Callable[[RawV2Link], Any], int]]:
    """States that expect a frame with a list, the frame, and the offset of the list's length in it."""
    by_step = {place.before: place for place in places_of(role) if not place.resumes}
    if role == CONNECTOR:
        return [
            (by_step["auth_done"], lambda _link: AuthBadMethod(2, -13, [2], [1]), 8),
            (by_step["auth_done"], lambda _link: AuthBadMethod(2, -13, [2], [1]), 16),
            (by_step["ident"], lambda link: link.server_ident(), 1),
        ]
    return [
        (by_step["auth_request"], lambda link: AuthRequest(2, [link.mode], b"payload"), 4),
        (by_step["auth_request"], lambda link: AuthRequest(2, [link.mode], b"payload"), 12),
        (by_step["compression"], lambda _link: CompressionRequest(is_compress=True, methods=[1]), 1),
        (by_step["ident"], lambda link: link.client_ident(), 1),
    ]


# ---- addresses


def _sockaddr(family: int, size: int, *, announced: int | None = None) -> bytes:
    """An entity_addr_t with a socket address of this family and size."""
    inside = (2).to_bytes(4, "little") + (7).to_bytes(4, "little")
    inside += (size if announced is None else announced).to_bytes(4, "little")
    inside += (family.to_bytes(2, "little") + bytes(size))[:size]
    return b"\1\1\1" + len(inside).to_bytes(4, "little") + inside


_BAD_ADDRESSES = {
    "family": _sockaddr(77, 16),
    "cut": _sockaddr(2, 1),
    "longer than it is": _sockaddr(2, 16, announced=200),
    "huge": _sockaddr(2, 16, announced=0xFFFFFFFF),
    "marker": b"\7" + _sockaddr(2, 16)[1:],
}


@MF.scenario("MF-17", "addresses_malformed", priority=2, cases=ROLES, ways=FEW_V2_WAYS)
def addresses_malformed(lab: Lab, role: str) -> None:
    """A malformed address breaks the link, and so does an ident with no address or with more than 64.

    HELLO and idents have addresses of an unknown family, socket addresses that are cut or announce more bytes than
    they have, and unknown markers: each is malformed. So is an ident without any address, with a blank one, or
    with 65; one with 64 opens the session.
    """
    peer = stage(lab, role)
    hello = next(place for place in early_and_late(role) if place.before)
    ident = next(place for place in places_of(role) if place.before == "ident" and not place.resumes)
    for bad in _BAD_ADDRESSES.values():
        link = arrive(peer, hello)
        send = partial(link.write, link.writer.control(Tag.HELLO, _hello(link, bad)))
        breaks(lab, link, send, "MALFORMED", state=hello.state)
        link = arrive(peer, ident)
        Spoiler(link, lambda payload: b"\2\1\0\0\0" + bad + payload)  # noqa: B023 - used at once
        breaks(lab, link, link.ident, "MALFORMED", state=ident.state)
    for addrs in (AddrVec(()), AddrVec((EntityAddr(),))):
        link = arrive(peer, ident)
        frame = link.server_ident(addrs=addrs) if role == CONNECTOR else link.client_ident(addrs=addrs)
        breaks(lab, link, partial(link.send, frame), "MALFORMED", "WRONG_TARGET", state=ident.state)
    for count in (MOST_ADDRS + 1, MOST_ADDRS):
        link = arrive(peer, ident)
        own = link.me.addrs.front
        many = AddrVec((own, *(own.with_nonce(number) for number in range(count - 1))))
        frame = link.server_ident(addrs=many) if role == CONNECTOR else link.client_ident(addrs=many)
        if count > MOST_ADDRS:
            breaks(lab, link, partial(link.send, frame), "MALFORMED", state=ident.state)
        else:
            link.send(frame)
            link.rest(0.05)
            lab.require(not link.closed, f"{count} addresses break the link: {lab.last_fault('a')}")
            lab.expect("a", "registry", 1)
