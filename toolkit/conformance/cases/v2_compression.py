"""Negotiation of compression (docs/protocol.md §4.10)."""

from struct import pack

from messenger.algorithms import Algorithm
from messenger.denc.entity import EntityType
from messenger.v2.wire import CompressionDone, CompressionRequest, Tag
from toolkit.conformance.attempt import COMPRESSING, Attempt
from toolkit.conformance.case import CLOSED, OPEN, Area, Level, Need
from toolkit.conformance.peers import V2Peer

COMPRESSION = Area("v2/compression", "4.10", Need.SESSION, Need.COMPRESSION)
_NONE = "not compressed"
_BETWEEN_OSDS = "compressed between OSDs"
_UNKNOWN = 99


def _due(attempt: Attempt) -> V2Peer:
    peer = attempt.proven(features=COMPRESSING)
    peer.signature()
    return peer


def _answer(attempt: Attempt, *methods: int, wanted: bool = True) -> str:
    peer = _due(attempt)
    peer.send(CompressionRequest(wanted, list(methods)))
    done = peer.expect(CompressionDone)
    return f"compressed by {Algorithm(done.method).name}" if done.is_compress else _NONE


@COMPRESSION.case("The peer requests no compression and lists no method: the link is not compressed", _NONE)
def _unwanted(attempt: Attempt) -> str:
    return _answer(attempt, wanted=False)


@COMPRESSION.case("The peer requests no compression, but lists methods: the link is not compressed", _NONE)
def _unwanted_methods(attempt: Attempt) -> str:
    return _answer(attempt, Algorithm.SNAPPY, Algorithm.ZLIB, wanted=False)


@COMPRESSION.case("The peer requests compression and lists no method: the link is not compressed", _NONE)
def _no_method(attempt: Attempt) -> str:
    return _answer(attempt)


@COMPRESSION.case("The peer requests compression by an unknown method: the link is not compressed", _NONE)
def _unknown_method(attempt: Attempt) -> str:
    return _answer(attempt, _UNKNOWN)


@COMPRESSION.case("COMPRESSION_DONE without compression names method 0", "0")
def _method_0(attempt: Attempt) -> str:
    peer = _due(attempt)
    peer.send(CompressionRequest(False, []))
    return str(peer.expect(CompressionDone).method)


@COMPRESSION.case(
    "The peer requests compression by snappy: only a link between OSDs may be compressed",
    _NONE,
    _BETWEEN_OSDS,
    level=Level.TOLERANT,
)
def _snappy(attempt: Attempt) -> str:
    answer = _answer(attempt, Algorithm.SNAPPY)
    between_osds = attempt.target.name.type is attempt.facts.entity_type is EntityType.OSD
    return _BETWEEN_OSDS if answer != _NONE and between_osds else answer


@COMPRESSION.case("After a negotiation without compression the session works", OPEN)
def _goes_on(attempt: Attempt) -> str:
    peer = _due(attempt)
    peer.send(CompressionRequest(True, [_UNKNOWN]))
    peer.expect(CompressionDone)
    attempt.ident(peer)
    return peer.fate()


@COMPRESSION.case("COMPRESSION_REQUEST of a peer without COMPRESSION in its banner: the link is closed", CLOSED)
def _not_in_banner(attempt: Attempt) -> str:
    peer = attempt.admitted()
    peer.send(CompressionRequest(False, []))
    return peer.outcome()


@COMPRESSION.case("A peer without COMPRESSION in its banner opens a session without a negotiation", OPEN)
def _without(attempt: Attempt) -> str:
    return attempt.open().fate()


@COMPRESSION.case("A truncated COMPRESSION_REQUEST: the link is closed", CLOSED, section="4.3")
def _cut(attempt: Attempt) -> str:
    peer = _due(attempt)
    peer.payload(Tag.COMPRESSION_REQUEST, b"\x00\x01", "COMPRESSION_REQUEST of 2 bytes")
    return peer.outcome()


@COMPRESSION.case(
    "COMPRESSION_REQUEST that announces more methods than it contains: the link is closed", CLOSED, section="4.3"
)
def _many(attempt: Attempt) -> str:
    peer = _due(attempt)
    peer.payload(Tag.COMPRESSION_REQUEST, pack("<BI", 1, 100_000), "COMPRESSION_REQUEST with 100000 methods")
    return peer.outcome()


@COMPRESSION.case("COMPRESSION_REQUEST twice: the link is closed", CLOSED)
def _twice(attempt: Attempt) -> str:
    peer = _due(attempt)
    peer.send(CompressionRequest(False, []))
    peer.expect(CompressionDone)
    peer.send(CompressionRequest(False, []))
    return peer.outcome()
