"""Requests and answers in handshakes: a frame is only sent in answer to another one.

See docs/protocol.md §3.2, §4.1.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from messenger.link import Protocol


class _Answers(NamedTuple):
    """Frames that are sent at most as often as the frames that they answer arrived."""

    sent: frozenset[str]
    asked_by: tuple[str, ...]


def _answers(sent: str, *asked_by: str) -> _Answers:
    return _Answers(frozenset(sent.split()), asked_by)


_IDENTS = ("CLIENT_IDENT", "SESSION_RECONNECT")
_RULES: Mapping[tuple[Protocol, bool], tuple[_Answers, ...]] = {
    (Protocol.V2, True): (
        _answers("HELLO", "BANNER"),
        _answers("AUTH_REQUEST", "HELLO", "AUTH_BAD_METHOD"),
        _answers("AUTH_REQUEST_MORE", "AUTH_REPLY_MORE"),
        _answers("AUTH_SIGNATURE", "AUTH_DONE"),
        _answers("COMPRESSION_REQUEST", "AUTH_SIGNATURE"),
        _answers(
            "CLIENT_IDENT SESSION_RECONNECT",
            *("AUTH_SIGNATURE", "SESSION_RESET", "SESSION_RETRY", "SESSION_RETRY_GLOBAL"),
        ),
    ),
    (Protocol.V2, False): (
        _answers("HELLO", "BANNER"),
        _answers("AUTH_BAD_METHOD AUTH_REPLY_MORE AUTH_DONE", "AUTH_REQUEST", "AUTH_REQUEST_MORE"),
        _answers("COMPRESSION_DONE", "COMPRESSION_REQUEST"),
        _answers("SERVER_IDENT IDENT_MISSING_FEATURES", *_IDENTS),
        _answers("SESSION_RESET SESSION_RETRY SESSION_RETRY_GLOBAL SESSION_RECONNECT_OK WAIT", *_IDENTS),
    ),
    (Protocol.V1, True): (
        _answers("IDENTIFY", "IDENTIFY"),
        _answers("CONNECT", "IDENTIFY", "CONNECT_REPLY"),
        _answers("SEQ", "SEQ"),
    ),
    (Protocol.V1, False): (_answers("CONNECT_REPLY", "CONNECT"), _answers("SEQ", "CONNECT")),
}
"""The answers of an end, by protocol and role: True for the end that dialled."""
_OPENED_BY: Mapping[tuple[Protocol, bool], tuple[str, ...]] = {
    (Protocol.V2, True): ("SERVER_IDENT", "SESSION_RECONNECT_OK"),
    (Protocol.V2, False): _IDENTS,
    (Protocol.V1, True): ("CONNECT_REPLY",),
    (Protocol.V1, False): ("CONNECT",),
}
"""One of these frames must arrive before messages and acks are sent."""
REPLY = "CONNECT_REPLY "
_AWAITED = (("COMPRESSION_REQUEST", "COMPRESSION_DONE"), (f"{REPLY}SEQ", "SEQ"))
"""Frames after which nothing else is sent until the peer's answer arrives, each with its answer."""


Words = tuple[tuple[str, str], ...]
"""Frames as pairs of direction and tag."""


@lru_cache(maxsize=4096)
def first_unsolicited(
    protocol: Protocol,
    dialled: bool,  # noqa: FBT001 - part of a cache's key
    words: Words,
    data: bool,  # noqa: FBT001 - as above
) -> tuple[int, str] | None:
    """Return the index of the first unsolicited frame, and the reason; None if there is none.

    Each frame of a handshake answers another one, and messages wait until the link is open. Handshakes are mostly
    alike, so results are cached.

    Args:
        protocol: protocol of the link.
        dialled: True if this end dialled.
        words: the frames of the handshake, up to the first message or ack that is sent.
        data: True if a message or ack is sent.
    """
    counts: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for number, (direction, word) in enumerate(words):
        tag = word.partition(" ")[0]
        if direction == "rx":
            counts[tag] += 1
            continue
        sent[tag] += 1
        sent[word] += word != tag
        for rule in _RULES[protocol, dialled]:
            if tag in rule.sent and sum(sent[each] for each in rule.sent) > sum(
                counts[each] for each in rule.asked_by
            ):
                return number, f"{tag} is sent, but no {' or '.join(rule.asked_by)} has asked for it"
        if tag in _IDENTS and sent["COMPRESSION_REQUEST"] > counts["COMPRESSION_DONE"]:
            return number, f"{tag} is sent before COMPRESSION_DONE has arrived"
    expected = [answer for request, answer in _AWAITED if sent[request] > counts[answer]]
    opened_by = _OPENED_BY[protocol, dialled]
    if data and (expected or not any(counts[each] for each in opened_by)):
        return len(
            words
        ), f"a message or an ack is sent before {' or '.join(sorted(expected) or opened_by)} has arrived"
    return None


def word_of(frame: dict[str, Any]) -> tuple[str, str]:
    """Return a frame as one of :data:`Words`; a reply of v1 with its own tag."""
    tag = frame["tag"]
    return frame["direction"], f"{REPLY}{frame['fields'].get('tag')}" if tag == "CONNECT_REPLY" else tag
