"""Opening of a v1 link: banner, addresses, CONNECT and its replies (docs/protocol.md §3.2 to §3.5)."""

import time
from dataclasses import replace
from typing import Any

from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import MsgrError
from messenger.v1.wire import Banner, ClientIdentify, Connect, ConnectReply, Seq, ServerIdentify, Tag
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, SILENCE, Area, Level, Need
from toolkit.conformance.peers import V1Peer

BANNER = Area("v1/banner", "3.2")
ADDRESS = Area("v1/address", "3.2")
CONNECT = Area("v1/connect", "3.4")
AUTHORIZER = Area("v1/authorizer", "3.3", Need.LOGIN, Need.CEPHX, Need.SERVICE)
_GOOD = b"ceph v027"
_OPENED = ("SEQ", "READY")
_BAD = ("BADAUTHORIZER", CLOSED)
_NONE_REQUIRED = "requires none"


# ---- banner


def _after(attempt: Attempt, raw: bytes, what: str) -> str:
    """Send CONNECT with a wrong protocol version after a banner; BADPROTOVER shows that the banner was valid."""
    peer = attempt.dial_v1()
    peer.put(raw, what)
    return _refusal(peer)


def _refusal(peer: V1Peer) -> str:
    try:
        peer.expect(Banner)
        peer.expect(ServerIdentify)
        peer.send(ClientIdentify(peer.addr), _connect(peer, protocol_version=0xFFFF))
        return peer.answer_to_connect()
    except MsgrError:
        return CLOSED if peer.stream.closed else SILENCE


def _connect(peer: V1Peer, **changes: Any) -> Connect:
    """Return a CONNECT without an authorizer."""
    version = {EntityType.MON: 15, EntityType.OSD: 24, EntityType.MDS: 32}.get(peer.other.type, 0)
    fields: dict[str, Any] = {
        "features": CLIENT_FEATURES,
        "host_type": EntityType.CLIENT,
        "global_seq": peer.global_seq,
        "connect_seq": 0,
        "protocol_version": version,
    }
    return Connect(**fields | changes)


@BANNER.case("The target sends its banner and addresses without waiting for the peer", "IDENTIFY")
def _unasked(attempt: Attempt) -> str:
    peer = attempt.dial_v1()
    peer.expect(Banner)
    return str(peer.expect(ServerIdentify).PIECE)


@BANNER.case("The correct banner: the handshake continues", "BADPROTOVER")
def _right(attempt: Attempt) -> str:
    return _after(attempt, _GOOD, "the banner")


@BANNER.case("A banner whose first byte is wrong: the link is closed", CLOSED)
def _first_byte(attempt: Attempt) -> str:
    return _after(attempt, b"C" + _GOOD[1:], "a banner that begins with C")


@BANNER.case("The banner of version 026: the link is closed", CLOSED)
def _version(attempt: Attempt) -> str:
    return _after(attempt, b"ceph v026", "the banner of v026")


@BANNER.case("The banner of msgr v2 on a v1 port: the link is closed", CLOSED)
def _v2(attempt: Attempt) -> str:
    return _after(attempt, b"ceph v2\n\x10\x00" + bytes(16), "the banner of msgr v2")


@BANNER.case("The banner arrives byte by byte: the handshake continues", "BADPROTOVER")
def _bytewise(attempt: Attempt) -> str:
    peer = attempt.dial_v1()
    for byte in _GOOD:
        peer.write(bytes([byte]))
        time.sleep(0.0005)
    return _refusal(peer)


@BANNER.case("The stream ends after half a banner: the link is closed", CLOSED)
def _half(attempt: Attempt) -> str:
    peer = attempt.dial_v1()
    peer.expect(Banner)
    peer.expect(ServerIdentify)
    peer.put(_GOOD[:4], "4 bytes of a banner")
    peer.half_close()
    return peer.answer_to_connect()


# ---- addresses


def _identify(attempt: Attempt) -> ServerIdentify:
    peer = attempt.dial_v1()
    peer.banner()
    return peer.expect(ServerIdentify)


@ADDRESS.case("The target announces the address to which the peer connected", "the dialled address")
def _own(attempt: Attempt) -> str:
    found, dialled = _identify(attempt).server_addr, attempt.target.addr
    same = (found.ip, found.port) == (dialled.ip, dialled.port)
    return "the dialled address" if same else str(found)


@ADDRESS.case("The target announces the same nonce on every link", "the same", section="1.3")
def _nonce(attempt: Attempt) -> str:
    found = {_identify(attempt).server_addr.nonce for _ in range(2)}
    return "the same" if len(found) == 1 else str(found)


@ADDRESS.case("The target announces the IP address from which the peer connects", "own IP")
def _seen(attempt: Attempt) -> str:
    peer = attempt.dial_v1()
    peer.banner()
    seen = peer.expect(ServerIdentify).client_addr
    return "own IP" if seen.ip == peer.socket_addr.ip else str(seen)


def _addressed(attempt: Attempt, raw: bytes, what: str) -> str:
    peer = attempt.dial_v1()
    peer.banner()
    peer.expect(ServerIdentify)
    peer.put(raw, what)
    peer.send(_connect(peer, protocol_version=0xFFFF))
    return peer.answer_to_connect()


@ADDRESS.case("The peer's address has no IP: the target uses that of the connection", "BADPROTOVER")
def _blank_ip(attempt: Attempt) -> str:
    peer = attempt.dial_v1()
    addr = replace(peer.addr, ip=bytes(len(peer.addr.ip)))
    return _addressed(attempt, ClientIdentify(addr).encode(), "an address with IP 0.0.0.0")


@ADDRESS.case(
    "The peer's address has no family: the target uses the IP of the connection",
    "BADPROTOVER",
    level=Level.TOLERANT,
)
def _no_family(attempt: Attempt) -> str:
    return _addressed(attempt, bytes(136), "an address of zeros")


@ADDRESS.case("The stream ends inside the peer's address: the link is closed", CLOSED)
def _cut(attempt: Attempt) -> str:
    peer = attempt.dial_v1()
    peer.banner()
    peer.expect(ServerIdentify)
    peer.put(bytes(100), "100 bytes of an address")
    peer.half_close()
    return peer.answer_to_connect()


# ---- CONNECT


def _reply(attempt: Attempt, **changes: Any) -> ConnectReply:
    peer = attempt.identified_v1()
    peer.send(_connect(peer, **changes))
    return peer.expect(ConnectReply)


def _answer(attempt: Attempt, **changes: Any) -> str:
    peer = attempt.identified_v1()
    peer.send(_connect(peer, **changes))
    return peer.answer_to_connect()


@CONNECT.case("An unknown protocol version: BADPROTOVER", "BADPROTOVER")
def _wrong_version(attempt: Attempt) -> str:
    return _answer(attempt, protocol_version=0xFFFF)


@CONNECT.case("Protocol version 0 to a target that has another version: BADPROTOVER", "BADPROTOVER")
def _version_0(attempt: Attempt) -> str:
    version = _reply(attempt, protocol_version=0xFFFF).protocol_version
    return _answer(attempt, protocol_version=0 if version else 1)


@CONNECT.case(
    "BADPROTOVER names the version that this type of daemon expects of clients", "the version", section="3.1"
)
def _names_version(attempt: Attempt) -> str:
    found = _reply(attempt, protocol_version=0xFFFF).protocol_version
    return "the version" if found in (0, 15, 24, 32) else str(found)


@CONNECT.case(
    "CONNECT without features: FEATURES if the target requires any, otherwise the next check",
    "FEATURES",
    "READY",
    "BADAUTHORIZER",
)
def _no_features(attempt: Attempt) -> str:
    return _answer(attempt, features=0)


@CONNECT.case("FEATURES names the features that the target requires", "names some", _NONE_REQUIRED)
def _names_features(attempt: Attempt) -> str:
    reply = _reply(attempt, features=0)
    if reply.tag is not Tag.FEATURES:
        return _NONE_REQUIRED
    return "names some" if reply.features else "none"


@CONNECT.case("A wrong protocol version and missing features: BADPROTOVER takes precedence", "BADPROTOVER")
def _order(attempt: Attempt) -> str:
    return _answer(attempt, protocol_version=0xFFFF, features=0)


@CONNECT.case("A wrong CONNECT after BADPROTOVER on the same link is checked again", "BADPROTOVER")
def _again(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(_connect(peer, protocol_version=0xFFFF))
    peer.expect(ConnectReply)
    peer.send(_connect(peer, protocol_version=0xFFFE))
    return peer.answer_to_connect()


@CONNECT.case("A valid CONNECT after BADPROTOVER on the same link: the session opens", OPEN, needs=(Need.SESSION,))
def _good_after_version(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(_connect(peer, protocol_version=0xFFFF))
    peer.expect(ConnectReply)
    peer.connect()
    peer.seq()
    return peer.fate()


@CONNECT.case(
    "A valid CONNECT after one without features on the same link: the session opens",
    OPEN,
    _NONE_REQUIRED,
    needs=(Need.SESSION,),
    level=Level.TOLERANT,
)
def _good_after_features(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(_connect(peer, features=0))
    if peer.expect(ConnectReply).tag is not Tag.FEATURES:
        return _NONE_REQUIRED
    peer.connect()
    peer.seq()
    return peer.fate()


@CONNECT.case("Undefined features are ignored", *_OPENED, needs=(Need.SESSION,), section="2.4")
def _unknown_features(attempt: Attempt) -> str:
    return attempt.identified_v1(features=CLIENT_FEATURES | 1 << 55 | 1 << 63).ask()


@CONNECT.case("A peer with RECONNECT_SEQ: the last reply is SEQ", "SEQ", needs=(Need.SESSION,))
def _seq(attempt: Attempt) -> str:
    return attempt.identified_v1().ask()


@CONNECT.case(
    "A peer without RECONNECT_SEQ: the last reply is READY", "READY", needs=(Need.SESSION,), section="2.3"
)
def _ready(attempt: Attempt) -> str:
    return attempt.identified_v1(features=CLIENT_FEATURES & ~Feature.RECONNECT_SEQ).ask()


@CONNECT.case("SEQ of a new session has in_seq 0", "0", needs=(Need.SESSION,), section="3.6")
def _in_seq(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.connect()
    return str(peer.expect(Seq).seq)


@CONNECT.case("The last reply has connect_seq 1", "1", needs=(Need.SESSION,))
def _connect_seq(attempt: Attempt) -> str:
    return str(_last_reply(attempt).connect_seq)


def _last_reply(attempt: Attempt) -> ConnectReply:
    peer = attempt.identified_v1()
    peer.connect()
    assert peer.reply is not None
    return peer.reply


@CONNECT.case(
    "The last reply has the features that the target supports, MSG_AUTH among them",
    "MSG_AUTH",
    needs=(Need.SESSION,),
)
def _supported(attempt: Attempt) -> str:
    found = _last_reply(attempt).features
    return "MSG_AUTH" if found & Feature.MSG_AUTH else f"0x{found:x}"


@CONNECT.case("The target does not advertise the reserved feature 62", "no", needs=(Need.SESSION,), section="2.4")
def _reserved(attempt: Attempt) -> str:
    return "yes" if _last_reply(attempt).features & 1 << 62 else "no"


@CONNECT.case(
    "The global_seq of the last reply grows from link to link", "higher", needs=(Need.SESSION,), section="3.6"
)
def _global_seq(attempt: Attempt) -> str:
    first = _last_reply(attempt).global_seq
    with Attempt(attempt.target) as other:
        second = _last_reply(other).global_seq
    return "higher" if second > first else f"{second} after {first}"


@CONNECT.case(
    "connect_seq 5 for an unknown session: RESETSESSION, or a lossy session opens",
    "RESETSESSION",
    *_OPENED,
    needs=(Need.SESSION,),
)
def _unknown_session(attempt: Attempt) -> str:
    return attempt.identified_v1().ask(connect_seq=5)


@CONNECT.case(
    "connect_seq 5 for an unknown session at a lossless target: RESETSESSION",
    "RESETSESSION",
    needs=(Need.LOSSLESS,),
)
def _reset(attempt: Attempt) -> str:
    return attempt.identified_v1().ask(connect_seq=5)


@CONNECT.case(
    "An authorizer of 4 GiB is announced: the link is closed",
    CLOSED,
    classic=(SILENCE,),
    level=Level.TOLERANT,
    destructive=True,
)
def _huge_authorizer(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    raw = bytearray(_connect(peer).encode())
    raw[28:32] = b"\xff\xff\xff\xff"
    peer.put(bytes(raw), "CONNECT that announces an authorizer of 4 GiB")
    return peer.answer_to_connect()


@CONNECT.case("The stream ends inside CONNECT: the link is closed", CLOSED)
def _half_connect(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.put(_connect(peer).encode()[:20], "20 bytes of CONNECT")
    peer.half_close()
    return peer.answer_to_connect()


# ---- authorizers


@AUTHORIZER.case("A valid authorizer: CHALLENGE_AUTHORIZER", "CHALLENGE_AUTHORIZER")
def _challenged(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(peer.connect_message())
    return peer.answer_to_connect()


@AUTHORIZER.case("No authorizer: BADAUTHORIZER", "BADAUTHORIZER")
def _missing(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(peer.connect_message(authorizer_protocol=0, authorizer=b""))
    return peer.answer_to_connect()


@AUTHORIZER.case("An authorizer of random bytes: BADAUTHORIZER", *_BAD)
def _random(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(peer.connect_message(authorizer=bytes(range(100))))
    return peer.answer_to_connect()


@AUTHORIZER.case("An authorizer with a flipped bit: BADAUTHORIZER", *_BAD)
def _flipped(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    connect = peer.connect_message()
    raw = bytearray(connect.authorizer)
    raw[-20] ^= 1
    peer.send(replace(connect, authorizer=bytes(raw)))
    return peer.answer_to_connect()


@AUTHORIZER.case("An unknown authorizer protocol: BADAUTHORIZER", *_BAD)
def _unknown_protocol(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    peer.send(peer.connect_message(authorizer_protocol=77))
    return peer.answer_to_connect()


@AUTHORIZER.case(
    "The first authorizer again instead of an answer to the challenge: it does not open the session",
    "CHALLENGE_AUTHORIZER",
    *_BAD,
)
def _unanswered(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    connect = peer.connect_message()
    peer.send(connect)
    peer.expect(ConnectReply)
    peer.send(connect)
    return peer.answer_to_connect()


@AUTHORIZER.case("An answer to the challenge with a flipped bit: BADAUTHORIZER", *_BAD)
def _wrong_answer(attempt: Attempt) -> str:
    peer = attempt.identified_v1()
    connect = peer.connect_message()
    peer.send(connect)
    raw = bytearray(peer.exchange.more(peer.expect(ConnectReply).authorizer))
    raw[-20] ^= 1
    peer.send(replace(connect, authorizer=bytes(raw)))
    return peer.answer_to_connect()


@AUTHORIZER.case("The answer to the challenge: the session opens, and the reply proves the target's key", *_OPENED)
def _answered(attempt: Attempt) -> str:
    return attempt.identified_v1().ask()
