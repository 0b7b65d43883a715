"""CLIENT_IDENT and SERVER_IDENT (docs/protocol.md §4.9)."""

from collections.abc import Callable
from dataclasses import replace

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.features import CLIENT_FEATURES, MSG_ADDR2
from messenger.v2.wire import FLAG_LOSSY, IdentMissingFeatures, ServerIdent, Tag
from toolkit.conformance.attempt import Attempt
from toolkit.conformance.case import CLOSED, OPEN, Area, Level, Need

IDENT = Area("v2/ident", "4.9", Need.SESSION)
_UNKNOWN_FLAG = 1 << 9


def _answer(attempt: Attempt, **changes: object) -> str:
    peer = attempt.admitted()
    peer.send(peer.client_ident(**changes))
    return peer.outcome()


def _wrong_target(attempt: Attempt, **changes: object) -> str:
    return _answer(attempt, target_addr=replace(attempt.target.addr, **changes))  # type: ignore[arg-type]


@IDENT.case("A valid CLIENT_IDENT: SERVER_IDENT, and the session works", OPEN)
def _good(attempt: Attempt) -> str:
    return attempt.open().fate()


@IDENT.case("CLIENT_IDENT without addresses: the link is closed", CLOSED)
def _no_addresses(attempt: Attempt) -> str:
    return _answer(attempt, addrs=AddrVec())


@IDENT.case("CLIENT_IDENT whose first address is blank: the link is closed", CLOSED)
def _blank_address(attempt: Attempt) -> str:
    return _answer(attempt, addrs=AddrVec((EntityAddr(),)))


@IDENT.case("CLIENT_IDENT for another port: the link is closed", CLOSED)
def _wrong_port(attempt: Attempt) -> str:
    return _wrong_target(attempt, port=attempt.target.addr.port ^ 1)


@IDENT.case("CLIENT_IDENT for another nonce: the link is closed", CLOSED)
def _wrong_nonce(attempt: Attempt) -> str:
    return _wrong_target(attempt, nonce=attempt.target.addr.nonce ^ 1)


@IDENT.case("CLIENT_IDENT for another IP address: the link is closed", CLOSED)
def _wrong_ip(attempt: Attempt) -> str:
    ip = attempt.target.addr.ip
    return _wrong_target(attempt, ip=ip[:-1] + bytes([ip[-1] ^ 0x80]))


@IDENT.case("CLIENT_IDENT for the target's address, but of type v1: the link is closed", CLOSED)
def _wrong_type(attempt: Attempt) -> str:
    return _wrong_target(attempt, type=AddressType.LEGACY)


@IDENT.case("CLIENT_IDENT without any feature: IDENT_MISSING_FEATURES", "IDENT_MISSING_FEATURES", section="2.4")
def _no_features(attempt: Attempt) -> str:
    return _answer(attempt, features_supported=0)


@IDENT.case("IDENT_MISSING_FEATURES names MSG_ADDR2 if only that is missing", "MSG_ADDR2", section="2.4")
def _without_addr2(attempt: Attempt) -> str:
    peer = attempt.admitted()
    peer.send(peer.client_ident(features_supported=CLIENT_FEATURES & ~MSG_ADDR2))
    missing = peer.expect(IdentMissingFeatures).features
    return "MSG_ADDR2" if missing == MSG_ADDR2 else f"0x{missing:x}"


@IDENT.case(
    "CLIENT_IDENT again, with all features, after IDENT_MISSING_FEATURES: SERVER_IDENT",
    "SERVER_IDENT",
    crimson=(CLOSED,),
)
def _second_chance(attempt: Attempt) -> str:
    peer = attempt.admitted()
    peer.send(peer.client_ident(features_supported=0))
    peer.expect(IdentMissingFeatures)
    peer.send(peer.client_ident())
    return peer.outcome()


@IDENT.case("CLIENT_IDENT with undefined features: they are ignored", "SERVER_IDENT", section="2.4")
def _unknown_features(attempt: Attempt) -> str:
    return _answer(attempt, features_supported=CLIENT_FEATURES | 1 << 55 | 1 << 63)


@IDENT.case("CLIENT_IDENT with an unknown flag: it is ignored", "SERVER_IDENT", level=Level.TOLERANT)
def _unknown_flag(attempt: Attempt) -> str:
    return _answer(attempt, flags=_UNKNOWN_FLAG)


def _lossiness(attempt: Attempt, flags: int, cookie: int) -> str:
    ident = attempt.ident(attempt.admitted(), flags=flags, client_cookie=cookie)
    return "lossy" if ident.flags & FLAG_LOSSY else "lossless"


@IDENT.case("The peer asks for a lossy session: the target's policy decides", "as its policy")
def _asks_for_lossy(attempt: Attempt) -> str:
    wanted = "lossless" if attempt.facts.lossless else "lossy"
    found = _lossiness(attempt, FLAG_LOSSY, 0)
    return "as its policy" if found == wanted else found


@IDENT.case(
    "The peer asks for a lossless session of a lossy target: the target's policy decides",
    "lossy",
    needs=(Need.LOSSY,),
)
def _asks_for_lossless(attempt: Attempt) -> str:
    return _lossiness(attempt, 0, attempt.client_cookie)


def _server_ident(attempt: Attempt) -> ServerIdent:
    return attempt.ident(attempt.admitted())


@IDENT.case("SERVER_IDENT lists the address to which the peer connected", "yes")
def _addresses(attempt: Attempt) -> str:
    addrs = _server_ident(attempt).addrs
    return "yes" if attempt.target.addr in addrs else str(addrs)


@IDENT.case("SERVER_IDENT of a lossy session has server_cookie 0", "0", needs=(Need.LOSSY,), level=Level.TOLERANT)
def _no_cookie(attempt: Attempt) -> str:
    return str(_server_ident(attempt).server_cookie)


@IDENT.case(
    "SERVER_IDENT of a lossless session has a server_cookie", "a cookie", needs=(Need.LOSSLESS,), destructive=True
)
def _cookie(attempt: Attempt) -> str:
    return "a cookie" if _server_ident(attempt).server_cookie else "0"


@IDENT.case("The global_seq of SERVER_IDENT grows from link to link", "higher", section="3.6")
def _global_seq(attempt: Attempt) -> str:
    first = _server_ident(attempt).global_seq
    with Attempt(attempt.target) as other:
        second = _server_ident(other).global_seq
    return "higher" if second > first > 0 else f"{second} after {first}"


@IDENT.case("The target supports MSG_ADDR2 and every feature that it requires", "yes", section="2.4")
def _consistent(attempt: Attempt) -> str:
    ident = _server_ident(attempt)
    missing = (ident.features_required | MSG_ADDR2) & ~ident.features_supported
    return f"not 0x{missing:x}" if missing else "yes"


@IDENT.case("The target does not advertise the reserved feature 62", "no", section="2.4")
def _reserved_feature(attempt: Attempt) -> str:
    return "yes" if _server_ident(attempt).features_supported & 1 << 62 else "no"


def _payload(attempt: Attempt, what: str, change: Callable[[bytes], bytes]) -> str:
    peer = attempt.admitted()
    peer.payload(Tag.CLIENT_IDENT, change(peer.client_ident().encode()), what)
    return peer.outcome()


@IDENT.case("A truncated CLIENT_IDENT: the link is closed", CLOSED, section="4.3")
def _cut(attempt: Attempt) -> str:
    return _payload(attempt, "CLIENT_IDENT without its last 5 bytes", lambda raw: raw[:-5])


@IDENT.case("CLIENT_IDENT with extra bytes after its fields: they are ignored", "SERVER_IDENT", section="4.3")
def _trailing(attempt: Attempt) -> str:
    return _payload(attempt, "CLIENT_IDENT with four bytes more", lambda raw: raw + b"more")


@IDENT.case(
    "CLIENT_IDENT whose address vector has the unknown marker 9: the link is closed", CLOSED, section="1.3"
)
def _marker(attempt: Attempt) -> str:
    return _payload(attempt, "CLIENT_IDENT with marker 9", lambda raw: b"\x09" + raw[1:])


@IDENT.case(
    "CLIENT_IDENT that announces more addresses than it contains: the link is closed",
    CLOSED,
    section="1.3",
    destructive=True,
)
def _many_addresses(attempt: Attempt) -> str:
    return _payload(attempt, "CLIENT_IDENT with 65535 addresses", lambda raw: raw[:1] + b"\xff\xff\0\0" + raw[5:])


@IDENT.case(
    "CLIENT_IDENT with one address instead of a vector, as marker 1 allows: SERVER_IDENT",
    "SERVER_IDENT",
    section="1.3",
)
def _one_address(attempt: Attempt) -> str:
    return _payload(attempt, "CLIENT_IDENT with a bare address", lambda raw: raw[5:])


@IDENT.case("Two links from two addresses of one peer are two sessions: both work", OPEN)
def _two_sessions(attempt: Attempt) -> str:
    first = attempt.open()
    with Attempt(attempt.target) as other:
        second = other.open().fate()
    return first.fate() if second == OPEN else second


@IDENT.case(
    "CLIENT_IDENT with the same address and cookie and a higher global_seq: the new link takes over the session",
    OPEN,
)
def _again(attempt: Attempt) -> str:
    attempt.open()
    return attempt.open().fate()
