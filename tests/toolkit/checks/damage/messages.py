"""Damage to the messages that applications send and receive."""

from collections.abc import Sequence

from tests.toolkit.checks.damage.damage import (
    Records,
    at,
    becomes,
    both,
    change_places,
    damage,
    drop,
    followed_by,
    following,
    has_following,
    like,
    more,
    move,
    of,
    repeat,
)
from toolkit.checks.records import MESSAGE_TAGS, Record

_SAME_SESSION = ("session", "peer")


def _swap(records: Records, place: int) -> None:
    other = following(records, place, *_SAME_SESSION)
    assert other is not None
    change_places(records, place, other)


def _swap_contents(records: Records, place: int) -> None:
    other = following(records, place, *_SAME_SESSION)
    assert other is not None
    names = ("tid", "digest", "size")
    one, two = ({name: records[each][name] for name in names} for each in (place, other))
    records[place], records[other] = like(records[place], **two), like(records[other], **one)


def _reflect(records: Records, place: int) -> None:
    record = records[place]
    records[place] = Record(record.time_s, record["peer"], record.kind, {**record.fields, "peer": record.node})


def _before_its_send(records: Records, place: int) -> None:
    move(records, place, next(each for each, record in enumerate(records) if _is_send_of(record, records[place])))


def _to_the_end(records: Records, place: int) -> None:
    record = records.pop(place)
    records.append(at(record, records[-1].time_s))


def _two_thousand_s(records: Records, place: int) -> None:
    records[place:] = [at(record, record.time_s + 2000) for record in records[place:]]


def _is_send_of(record: Record, delivery: Record) -> bool:
    return record.kind == "send" and record["tid"] == delivery["tid"] and record.node == delivery["peer"]


def _lose_behind_the_wire(records: Records, place: int) -> None:
    """Neither delivered nor received."""
    lost = records[place]
    records[:] = [
        record
        for record in records
        if record is not lost and not (_is_frame_of(record, lost) and record.node == lost.node)
    ]


def _lose(records: Records, place: int) -> None:
    """Never written, received or delivered."""
    lost = records[place]
    records[:] = [record for record in records if record is not lost and not _is_frame_of(record, lost)]


def _is_frame_of(record: Record, delivery: Record) -> bool:
    if record.kind != "frame" or record["tag"] not in MESSAGE_TAGS:
        return False
    arrives = (record.node == delivery.node) == (record["direction"] == "rx")
    return bool(arrives and record["fields"].get("tid") == delivery["tid"])


def _goes_on(records: Sequence[Record], place: int) -> bool:
    """More of the session is delivered later, and no frame is on its way, which may take that long."""
    ways = [record["direction"] for record in records[:place] if record.kind == "frame"]
    return ways.count("tx") == ways.count("rx") and following(records, place, *_SAME_SESSION) is not None


def _arrives(records: Sequence[Record], place: int) -> bool:
    return any(record.kind == "deliver" and _is_send_of(records[place], record) for record in records)


_LATER = both(has_following(*_SAME_SESSION))

damage("a delivery is missing", "deliver", drop, "received_once", "no_silent_gap")
damage("a delivery is repeated", "deliver", repeat, "seq_accounting")
damage("two deliveries change places", "deliver", _swap, "seq_accounting", where=_LATER)
damage("two deliveries have each other's contents", "deliver", _swap_contents, "received_once", where=_LATER)
damage("a delivery has the next seq", "deliver", more("seq"), "received_once")
damage("a delivery has the seq before", "deliver", more("seq", -1), "received_once")
damage("a delivery has a tid that nobody sent", "deliver", becomes(tid=99_999), "payload")
damage("a delivery has another digest", "deliver", becomes(digest="00ff"), "payload")
damage("a delivery has another size", "deliver", more("size"), "payload")
damage("a delivery has another priority", "deliver", becomes(priority=63), "payload")
damage("a delivery has another type", "deliver", becomes(type=4242), "payload")
damage("a delivery has another version", "deliver", more("version", 77), "payload")
damage(
    "a delivery is said to be from the node itself", "deliver", becomes(peer=lambda r: r.node), "session_identity"
)
damage("a delivery is of a session that is not there", "deliver", becomes(session=77), "event_grammar")
damage("a delivery is at the sender", "deliver", _reflect, "received_once")
damage("a delivery comes before its send", "deliver", _before_its_send, "received_once")
damage("a delivery comes behind the end", "deliver", _to_the_end, "received_once")
damage(
    "nothing happens for 2000 s",
    "deliver",
    _two_thousand_s,
    "link_timeouts",
    where=_goes_on,
    reason="behind the last delivery no link may be open, and then a pause harms nothing",
)
damage(
    "a message is not received",
    "deliver",
    _lose_behind_the_wire,
    "no_silent_gap",
    "acknowledged",
    "seq_accounting",
)
damage("a message is not written", "deliver", _lose, "no_silent_gap", "seq_accounting")
damage(
    "a message is received, but nobody takes it",
    "deliver",
    followed_by("unhandled", session=of("session"), peer=of("peer"), seq=of("seq"), type=2),
    "received_once",
)
damage(
    "an exception escapes",
    "deliver",
    followed_by("exception", where="ms_dispatch", error="ValueError: no"),
    "table_total",
)
damage(
    "a send is missing",
    "send",
    drop,
    "received_once",
    where=_arrives,
    reason="what never leaves its queue shows in nothing but its send",
)
damage(
    "a send has another digest",
    "send",
    becomes(digest="beef"),
    "payload",
    where=_arrives,
    reason="frames have no digest: it is compared where the message arrives",
)
damage("a send has another tid", "send", becomes(tid=88_888), "received_once", where=_arrives)
