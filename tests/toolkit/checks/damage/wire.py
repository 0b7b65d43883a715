"""Frames, as each end records them."""

from collections.abc import Callable, Sequence

from tests.toolkit.checks.damage.damage import (
    Records,
    becomes,
    both,
    change_places,
    damage,
    drop,
    following,
    has_fields,
    like,
    more,
    repeat,
    which,
)
from toolkit.checks.records import MESSAGE_TAGS, Record

_SAME_WAY = ("link", "direction")
_NUMBERS = ("global_seq", "connect_seq", "msg_seq", "client_cookie", "server_cookie", "seq", "gid")
_FREE = ("ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK")


def _passes(direction: str, *tags: str) -> Callable[[Record], bool]:
    return lambda frame: frame["direction"] == direction and (not tags or frame["tag"] in tags)


def _is_handshake(frame: Record) -> bool:
    return frame["tag"] not in MESSAGE_TAGS and frame["tag"] not in _FREE


def _not_last(records: Sequence[Record], place: int) -> bool:
    """More passes on the link in this direction: the last frame may not have arrived as well."""
    return following(records, place, *_SAME_WAY) is not None


def _arrives(records: Sequence[Record], place: int) -> bool:
    """It has arrived, and was not the last one."""
    frame = records[place]
    return _arrival(records, frame) is not None and _not_last(records, place)


def _arrival(records: Sequence[Record], frame: Record) -> int | None:
    """Return the position at which the frame arrived, found by its contents."""
    for at, other in enumerate(records):
        if (
            other.kind == "frame"
            and other.node != frame.node
            and other["direction"] != frame["direction"]
            and all(other[name] == frame[name] for name in ("tag", "index", "offset", "length", "fields"))
        ):
            return at
    return None


def _swap(records: Records, place: int) -> None:
    other = following(records, place, *_SAME_WAY)
    assert other is not None
    change_places(records, place, other)


def _next_differs(records: Sequence[Record], place: int) -> bool:
    other = following(records, place, *_SAME_WAY)
    return other is not None and records[other]["tag"] != records[place]["tag"]


def _without_acks(records: Records, _place: int) -> None:
    records[:] = [record for record in records if record.kind != "frame" or record["tag"] != "ACK"]


def _never_sent(records: Records, place: int) -> None:
    """Change the ACK at both ends to the seq of a message that was never sent."""
    frame = records[place]
    for at in (_arrival(records, frame), place):
        assert at is not None
        records[at] = like(records[at], fields={"seq": frame["fields"]["seq"] + 100})


def _early(records: Records, place: int) -> None:
    """Change the ACK at both ends to one more message than has arrived."""
    frame = records[place]
    for at in (_arrival(records, frame), place):
        assert at is not None
        records[at] = like(records[at], fields={"seq": frame["fields"]["seq"] + 1})


_RX_MESSAGE, _TX_MESSAGE = which(_passes("rx", *MESSAGE_TAGS)), which(_passes("tx", *MESSAGE_TAGS))
_RX_ACK, _TX_ACK = which(_passes("rx", "ACK")), which(_passes("tx", "ACK"))
_LAST = "the last frame of a link may as well not have arrived"

damage(
    "an ACK is not written",
    "frame",
    drop,
    "agreement",
    "decode_total",
    where=both(_TX_ACK, _arrives),
    reason=_LAST,
)
damage("an ACK is not received", "frame", drop, "decode_total", where=both(_RX_ACK, _not_last), reason=_LAST)
damage("no ACK is recorded", "frame", _without_acks, "seq_accounting", "decode_total", where=_RX_ACK)
damage(
    "an ACK says one more where it arrives",
    "frame",
    has_fields(seq=lambda seq: seq + 1),
    "agreement",
    where=_RX_ACK,
)
damage("an ACK is of one more than has come", "frame", _early, "acknowledged", where=both(_TX_ACK, _arrives))
damage("an ACK is of what was never sent", "frame", _never_sent, "acknowledged", where=both(_TX_ACK, _arrives))
damage(
    "a message is received that was not written",
    "frame",
    drop,
    "decode_total",
    "agreement",
    where=both(_TX_MESSAGE, _arrives),
    reason=_LAST,
)
damage("a message that was delivered is not received", "frame", drop, "received_once", where=_RX_MESSAGE)
damage("a message is received twice", "frame", repeat, "decode_total", where=_RX_MESSAGE)
damage(
    "a frame of a handshake is not received",
    "frame",
    drop,
    "decode_total",
    where=both(which(lambda r: r["direction"] == "rx" and _is_handshake(r)), _not_last),
    reason=_LAST,
)
damage(
    "received frames change places",
    "frame",
    _swap,
    "decode_total",
    where=both(which(_passes("rx")), _next_differs),
)
damage("a received frame has another length", "frame", more("length"), "agreement", where=which(_passes("rx")))
damage(
    "a written frame has another length",
    "frame",
    more("length"),
    "decode_total",
    "agreement",
    where=both(which(_passes("tx")), _arrives),
    reason=_LAST,
)
damage("a received message has another tag", "frame", becomes(tag="KEEPALIVE2"), "agreement", where=_RX_MESSAGE)
damage("a frame has the next index", "frame", more("index"), "decode_total")
damage("a frame begins somewhere else", "frame", more("offset", 7), "decode_total")
damage(
    "a message has another seq where it arrives",
    "frame",
    has_fields(seq=lambda seq: seq + 1),
    "agreement",
    where=_RX_MESSAGE,
)
damage(
    "a number of a handshake is another one where it arrives",
    "frame",
    has_fields(**dict.fromkeys(_NUMBERS, lambda number: number + 1)),
    "agreement",
    where=which(
        lambda r: r["direction"] == "rx" and _is_handshake(r) and not set(_NUMBERS).isdisjoint(r["fields"])
    ),
)
damage(
    "a message is as short as if nothing were sealed",
    "frame",
    becomes(length=61),
    "decode_total",
    "agreement",
    where=which(lambda r: r["tag"] in MESSAGE_TAGS),
)
damage(
    "an answer to a keepalive is not received",
    "frame",
    drop,
    "decode_total",
    "agreement",
    where=both(which(_passes("rx", "KEEPALIVE2_ACK")), _not_last),
    reason=_LAST,
)
damage(
    "a frame is not in the table of its state",
    "frame",
    becomes(tag="SESSION_RETRY"),
    "table_total",
    where=both(which(_passes("rx", "HELLO", "IDENTIFY")), _not_last),
    reason="behind the last frame the fault may be about to come",
)
