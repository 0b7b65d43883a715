"""Banner and HELLO (docs/protocol.md §4.2, §4.3)."""

import time
from dataclasses import replace
from struct import pack

from messenger.denc.address import AddressType
from messenger.denc.codec import Encoder
from messenger.denc.entity import EntityType
from messenger.denc.features import Msgr2Feature
from messenger.v2.wire import AuthRequest, Hello, Tag, encode_banner
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, SILENCE, Area, Level, Need
from toolkit.conformance.peers import V2Peer, introduction
from toolkit.node.raw.frames import RawFrame

BANNER = Area("v2/banner", "4.2")
HELLO = Area("v2/hello", "4.3")
_GOOD = encode_banner(Msgr2Feature.REVISION_1, 0)
_UNKNOWN = 1 << 40
_DAEMON_PAUSE_S = 0.005


def _with_banner(attempt: Attempt, raw: bytes, what: str) -> str:
    peer = attempt.dial()
    peer.put(raw, what)
    return _after_banner(peer)


def _after_banner(peer: V2Peer) -> str:
    """Return the outcome after the target's banner."""
    peer.gets_banner()
    return peer.outcome()


@BANNER.case("The target sends its banner without waiting for the peer's banner", "banner")
def _unasked(attempt: Attempt) -> str:
    peer = attempt.dial()
    return "banner" if peer.gets_banner() else SILENCE


@BANNER.case("The target requires only features of msgr 2.1", "known features", section="2.5")
def _required(attempt: Attempt) -> str:
    _, required = attempt.dial().expect_banner()
    known = Msgr2Feature.REVISION_1 | Msgr2Feature.COMPRESSION
    return "known features" if not required & ~known else f"requires 0x{required:x}"


@BANNER.case("The target supports every feature that it requires", "yes", section="2.5")
def _consistent(attempt: Attempt) -> str:
    supported, required = attempt.dial().expect_banner()
    return "yes" if not required & ~supported else "no"


@BANNER.case("A banner whose first byte is wrong: the link is closed", CLOSED)
def _first_byte(attempt: Attempt) -> str:
    return _with_banner(attempt, b"C" + _GOOD[1:], "a banner that begins with C")


@BANNER.case("A banner whose last byte before the length is wrong: the link is closed", CLOSED)
def _last_byte(attempt: Attempt) -> str:
    return _with_banner(attempt, _GOOD[:7] + b"\r" + _GOOD[8:], "a banner with CR instead of LF")


@BANNER.case("The banner of msgr v1 on a v2 port: the link is closed", CLOSED)
def _v1(attempt: Attempt) -> str:
    return _with_banner(attempt, b"ceph v027" + bytes(136), "the banner and address of msgr v1")


@BANNER.case("An HTTP request: the link is closed", CLOSED)
def _http(attempt: Attempt) -> str:
    return _with_banner(attempt, b"GET / HTTP/1.1\r\nHost: ceph\r\n\r\n", "an HTTP request")


@BANNER.case("A banner payload of 8 bytes, too short for both masks: the link is closed", CLOSED)
def _short_payload(attempt: Attempt) -> str:
    return _with_banner(attempt, b"ceph v2\n" + pack("<HQ", 8, 1), "a banner with a payload of 8 bytes")


@BANNER.case("An empty banner payload: the link is closed", CLOSED)
def _no_payload(attempt: Attempt) -> str:
    return _with_banner(attempt, b"ceph v2\n" + pack("<H", 0), "a banner with an empty payload")


@BANNER.case("A banner payload of 24 bytes, as a later version may send: only the first 16 are used", "HELLO")
def _long_payload(attempt: Attempt) -> str:
    raw = b"ceph v2\n" + pack("<HQQQ", 24, 1, 0, 0xFFFF)
    return _with_banner(attempt, raw, "a banner with a payload of 24 bytes")


@BANNER.case("The peer supports unknown features: they are ignored", "HELLO", section="2.5")
def _unknown_supported(attempt: Attempt) -> str:
    return _with_banner(attempt, encode_banner(1 | _UNKNOWN, 0), "a banner that supports bit 40")


@BANNER.case("The peer requires a feature that the target lacks: the link is closed", CLOSED)
def _unknown_required(attempt: Attempt) -> str:
    return _with_banner(attempt, encode_banner(1 | _UNKNOWN, _UNKNOWN), "a banner that requires bit 40")


@BANNER.case("The peer requires REVISION_1, which the target has: HELLO follows", "HELLO", section="2.5")
def _required_known(attempt: Attempt) -> str:
    return _with_banner(attempt, encode_banner(1, 1), "a banner that requires REVISION_1")


@BANNER.case("A peer of msgr 2.0: HELLO comes in a frame of msgr 2.0", "HELLO")
def _revision_0(attempt: Attempt) -> str:
    peer = attempt.dial(features=0)
    peer.banner()
    return _after_banner(peer)


@BANNER.case("The banner arrives byte by byte: HELLO follows", "HELLO")
def _bytewise(attempt: Attempt) -> str:
    peer = attempt.dial()
    for byte in _GOOD:
        peer.write(bytes([byte]))
        time.sleep(_DAEMON_PAUSE_S / 10)
    return _after_banner(peer)


@BANNER.case("The stream ends after half a banner: the link is closed", CLOSED)
def _half(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.put(_GOOD[:12], "12 bytes of a banner")
    peer.half_close()
    return _after_banner(peer)


@BANNER.case("Banner and HELLO in one segment: the target reads both", "AUTH_BAD_METHOD")
def _together(attempt: Attempt) -> str:
    peer = attempt.dial()
    hello = Hello(peer.name.type, peer.other.addr)
    request = AuthRequest(0, [1], introduction())
    frames = b"".join(RawFrame(frame.TAG, (frame.encode(),)).encode() for frame in (hello, request))
    peer.put(_GOOD + frames, "banner, HELLO and AUTH_REQUEST with method 0")
    first = _after_banner(peer)
    return peer.outcome() if first == "HELLO" else first


# ---- HELLO


def _hello(attempt: Attempt, payload: bytes, what: str) -> str:
    """Send a HELLO with this payload; return the answer to the AUTH_REQUEST that follows."""
    peer = attempt.dial()
    peer.banner()
    peer.expect(Hello)
    peer.payload(Tag.HELLO, payload, what)
    peer.send(AuthRequest(77, [1], introduction()))
    return peer.outcome()


def _encoded(attempt: Attempt, entity_type: EntityType | None = None, **addr: object) -> bytes:
    target = replace(attempt.target.addr, **addr)  # type: ignore[arg-type]
    return Hello(entity_type or attempt.target.name.type, target).encode()


@HELLO.case("The target sends HELLO after the peer's banner, without waiting for the peer's HELLO", "HELLO")
def _hello_first(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.banner()
    return _after_banner(peer)


@HELLO.case("HELLO contains the IP address and port of the peer's end of the connection", "own address")
def _seen_as(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.banner()
    peer.expect_banner()
    seen, own = peer.expect(Hello).peer_addr, peer.socket_addr
    return "own address" if (seen.ip, seen.port) == (own.ip, own.port) else f"{seen} for {own}"


@HELLO.case("The peer's address in HELLO is of type v2 and has nonce 0", "v2, nonce 0", level=Level.TOLERANT)
def _seen_type(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.banner()
    peer.expect_banner()
    seen = peer.expect(Hello).peer_addr
    return "v2, nonce 0" if (seen.type, seen.nonce) == (AddressType.MSGR2, 0) else str(seen)


@HELLO.case("HELLO names exactly one entity type", "one type")
def _type(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.banner()
    peer.expect_banner()
    found = peer.expect(Hello).entity_type
    return "one type" if found is not EntityType.ANY else str(found)


@HELLO.case("HELLO with extra bytes after its fields: they are ignored", "AUTH_BAD_METHOD")
def _trailing(attempt: Attempt) -> str:
    return _hello(attempt, _encoded(attempt) + b"\x01\x02\x03", "HELLO with three bytes more")


@HELLO.case("HELLO with an address in the legacy form: it is read", "AUTH_BAD_METHOD", section="1.3")
def _legacy_form(attempt: Attempt) -> str:
    encoder = Encoder()
    encoder.u8(attempt.target.name.type)
    encoder.raw(attempt.target.addr.legacy_image())
    return _hello(attempt, encoder.getvalue(), "HELLO with an address of 136 bytes")


@HELLO.case("HELLO without an address: the link is closed", CLOSED)
def _no_address(attempt: Attempt) -> str:
    return _hello(attempt, bytes([attempt.target.name.type]), "HELLO with the entity type only")


@HELLO.case("HELLO with a truncated address: the link is closed", CLOSED)
def _cut_address(attempt: Attempt) -> str:
    return _hello(attempt, _encoded(attempt)[:-6], "HELLO without its last 6 bytes")


@HELLO.case("HELLO whose address has the unknown form 7: the link is closed", CLOSED, section="1.3")
def _address_form(attempt: Attempt) -> str:
    raw = bytearray(_encoded(attempt))
    raw[1] = 7
    return _hello(attempt, bytes(raw), "HELLO with an address of form 7")


@HELLO.case("HELLO whose address requires decoder version 2: the link is closed", CLOSED, section="1.3")
def _address_compat(attempt: Attempt) -> str:
    raw = bytearray(_encoded(attempt))
    raw[2] = raw[3] = 2
    return _hello(attempt, bytes(raw), "HELLO with an address of struct_compat 2")


@HELLO.case("HELLO whose sockaddr is 1 byte long: the link is closed", CLOSED, section="1.3")
def _sockaddr(attempt: Attempt) -> str:
    raw = bytes([attempt.target.name.type, 1, 1, 1]) + pack("<IIIIB", 13, 2, 0, 1, 2)
    return _hello(attempt, raw, "HELLO with a sockaddr of 1 byte")


@HELLO.case("HELLO with a blank address (no IP address): it is read", "AUTH_BAD_METHOD", section="1.3")
def _blank(attempt: Attempt) -> str:
    return _hello(attempt, _encoded(attempt, ip=b"", port=0, nonce=0), "HELLO with a blank address")


@HELLO.case(
    "HELLO with another port, as behind a port mapping: it is read",
    "AUTH_BAD_METHOD",
    level=Level.TOLERANT,
    crimson=(CLOSED,),
)
def _mapped(attempt: Attempt) -> str:
    port = attempt.target.addr.port ^ 1
    return _hello(attempt, _encoded(attempt, port=port), f"HELLO with port {port}")


@HELLO.case("HELLO before the peer's banner was sent: the link is closed", CLOSED, section="4.1")
def _before_banner(attempt: Attempt) -> str:
    peer = attempt.dial()
    peer.expect_banner()
    peer.payload(Tag.HELLO, _encoded(attempt), "HELLO without a banner")
    return peer.outcome()


@HELLO.case("A second HELLO: the link is closed", CLOSED, section="4.1")
def _twice(attempt: Attempt) -> str:
    peer = attempt.greeted()
    peer.payload(Tag.HELLO, _encoded(attempt), "HELLO again")
    return peer.outcome()


@HELLO.case(
    "A peer of msgr 2.0 opens a session with frames of msgr 2.0", OPEN, section="4.5", needs=(Need.SESSION,)
)
def _session_of_revision_0(attempt: Attempt) -> str:
    return attempt.open(features=0).fate()
