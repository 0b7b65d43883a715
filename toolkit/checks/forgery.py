"""No node accepts a frame that a man in the middle changed (docs/protocol.md §4.4 to §4.7)."""

from typing import Any

from messenger.v1.wire import Piece
from toolkit.checks.index import Index
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog, same_frame

_BEHIND = frozenset({"insert", "duplicate", "replay", "reflect"})
"""The inserted bytes follow the frame, which itself may arrive whole."""
_SIGNED_TAGS = frozenset(
    {"BANNER", "HELLO", "AUTH_REQUEST", "AUTH_BAD_METHOD", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE"}
)
"""Frames that the v2 signatures cover, if there is a key to sign with."""
_CHANGING = frozenset({"flip", "rewrite", "truncate", "insert", "drop", "duplicate", "swap"})
"""Manglings that always change the signed bytes."""
_V1_TAGS = frozenset(Piece) - {Piece.BANNER, Piece.ACK, Piece.KEEPALIVE2, Piece.KEEPALIVE2_ACK}
_V1_SUMMED = 1
"""Offset in a v1 message of the first byte that its crcs cover; the footer follows them."""
_V1_FOOTER_BYTES = 21
_V2_EPILOGUE_BYTES = 13
_REV0_EPILOGUE_BYTES = 17
_V2_ONE_SEGMENT_BYTES = 32 + 41 + 4
"""Length of a v2 message without payload, which has no epilogue."""
_SESSION_TAGS = frozenset({"CLIENT_IDENT", "SERVER_IDENT", "SESSION_RECONNECT", "SESSION_RECONNECT_OK", "MESSAGE"})


def reject_forged(index: Index, findings: Findings) -> None:
    """reject_forged: a changed byte that is authenticated, or covered by a crc, ends the link undelivered."""
    for position, record in index.by_kind.get("mangle", ()):
        if record["what"] == "join":
            continue  # it delays bytes, and changes none
        candidates = [link for link in _candidates(index, position, record) if link.far is not None]
        if not candidates:
            findings.note(f"which link the {record['what']} at record {position} touched is not known")
            continue
        verdicts = [_verdict(link, position, record) for link in candidates]
        # Only one of the candidates was changed, so all must show the violation.
        if all(verdicts):
            at, text = verdicts[-1]  # type: ignore[misc]
            findings.add(at, text)


def _candidates(index: Index, position: int, record: Record) -> list[LinkLog]:
    """Return the sender's ends of the links that the record may mean: open, and with the frame sent."""
    at = record["at"]
    sender, tag, number = at.get("sender"), at.get("tag"), at.get("index")
    if not isinstance(number, int) or sender not in {record["a"], record["b"]}:
        return []
    peer = record["b"] if sender == record["a"] else record["a"]
    return [
        link
        for link in index.links.values()
        if link.key.node == sender
        and index.peer_of(link) == peer
        and any(
            frame["index"] == number and frame["tag"] == tag and place < position
            for place, frame in link.tx[number : number + 1]
        )
    ]


def _verdict(link: LinkLog, position: int, record: Record) -> tuple[int, str] | None:
    """Return the violation if the record is about this link; None if there is none."""
    far, at, what = link.far, record["at"], record["what"]
    assert far is not None
    number = at["index"]
    sent = link.tx[number][1]
    if what == "reflect" and (own := _taken_back(link, position)) is not None:
        return own
    taken = next((entry for entry in far.rx if entry[0] > position and _is_forged(entry[1], sent, what)), None)
    if taken is None:
        return None
    sealed = far.auth is not None and far.auth[1]["mode"] == "secure" and far.auth[0] < taken[0]
    name = f"{far.key.link}: {taken[1]['tag']} is taken"
    if sealed and sent["tag"] not in _SIGNED_TAGS:
        return taken[0], f"{name} after the {what} at frame {number}, on a secure link"
    if what == "flip" and _is_summed(sent, at, far):
        return taken[0], f"{name} although a byte of frame {number} was changed"
    if sent["tag"] in _SIGNED_TAGS and what in _CHANGING:
        return _opened(far, taken, f"the {what} of its {sent['tag']}")
    return None


def _is_forged(taken: Record, sent: Record, what: str) -> bool:
    """True if a frame is the changed one or follows it; a frame before inserted bytes may be unchanged."""
    if taken["index"] == sent["index"] and what in _BEHIND:
        return not same_frame(sent, taken)
    return bool(taken["index"] >= sent["index"])


def _taken_back(link: LinkLog, position: int) -> tuple[int, str] | None:
    """Return the violation if a secure end accepted its own frame as the peer's; else None."""
    if link.auth is None or link.auth[1]["mode"] != "secure":
        return None
    own = next((entry for entry in link.rx[link.agreed :] if entry[0] > max(position, link.auth[0])), None)
    return None if own is None else (own[0], f"{link.key.link}: {own[1]['tag']} is taken, which it sent itself")


def _is_summed(sent: Record, at: dict[str, Any], far: LinkLog) -> bool:
    """True if a crc of crc mode covers the byte. BANNER and the v1 handshake have no crc."""
    tag, byte = sent["tag"], at.get("byte")
    length: int = sent["length"]
    if not isinstance(byte, int) or tag == "BANNER":
        return False
    if byte < 0:
        byte += length
    if tag == Piece.MSG:
        return _V1_SUMMED <= byte < length - _V1_FOOTER_BYTES
    if tag in _V1_TAGS or any(frame["tag"] == Piece.IDENTIFY for _, frame in far.rx[:2]):
        return False
    if far.auth is not None and far.auth[1]["revision"] == 0:
        return byte != length - _REV0_EPILOGUE_BYTES  # its late flags; crcs follow
    if tag == "MESSAGE" and length > _V2_ONE_SEGMENT_BYTES:
        return byte < length - _V2_EPILOGUE_BYTES
    return True


def _opened(far: LinkLog, taken: Entry, why: str) -> tuple[int, str] | None:
    """Return the violation if a session opened although signed bytes were changed; else None."""
    if far.auth is None or far.auth[1]["cipher"] == "none":
        return None
    session = next((at for at, frame in far.rx if at >= taken[0] and frame["tag"] in _SESSION_TAGS), None)
    return None if session is None else (session, f"{far.key.link}: a session opens in spite of {why}")
