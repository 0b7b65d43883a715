"""Damage to the records of sessions: their numbers, and their events to applications."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.toolkit.checks.damage.damage import (
    Records,
    becomes,
    both,
    damage,
    drop,
    followed_by,
    like,
    more,
    move,
    of,
    repeat,
    which,
)
from toolkit.checks.records import Record

_STATE_FIELDS = (
    *("peer", "policy", "state", "connect_seq", "global_seq", "peer_global_seq", "client_cookie", "server_cookie"),
    *("in_seq", "out_seq", "acked_seq", "sent", "queued", "why"),
)
_OPENING = ("connect", "accept")


def _at_least(name: str, number: int) -> Callable[[Record], bool]:
    return lambda record: record["state"] != "CLOSED" and record[name] >= number


def _is_ready(record: Record) -> bool:
    return bool(record["state"] == "READY")


def _is(*events: str) -> Callable[[Record], bool]:
    return lambda record: record["event"] in events


for _name, _by, _invariant in (
    ("in_seq", 1, "seq_accounting"),
    ("in_seq", -1, "seq_accounting"),
    ("out_seq", 1, "seq_accounting"),
    ("out_seq", -1, "seq_accounting"),
    ("acked_seq", 5, "seq_accounting"),
    ("sent", 1, "seq_accounting"),
    ("queued", 50, "seq_accounting"),
    ("connect_seq", 3, "connect_monotonic"),
    ("connect_seq", -1, "connect_monotonic"),
    ("global_seq", 1, "connect_monotonic"),
    ("global_seq", -1, "connect_monotonic"),
    ("peer_global_seq", 1, "connect_monotonic"),
    ("peer_global_seq", -1, "connect_monotonic"),
):
    damage(
        f"a state has {_name} {_by:+}",
        "state",
        more(_name, _by),
        _invariant,
        where=which(_at_least(_name, max(0, -_by))),
        reason="a closed session keeps what it had, or nothing",
    )


def _frozen(name: str, value: int) -> Callable[[Records, int], None]:
    """Every state of the node, and every frame with the number, has the same one."""

    def change(records: Records, place: int) -> None:
        node = records[place].node
        links = {record["link"] for record in records if record.kind == "link" and record.node == node}
        far = {_far(link) for link in links}
        for at, record in enumerate(records):
            if record.kind == "state" and record.node == node:
                records[at] = like(record, **{name: value})
            elif record.kind == "frame" and name in record["fields"]:
                sent = record["direction"] == "tx" and record["link"] in links
                received = record["direction"] == "rx" and _far(record["link"]) in far and record.node != node
                if sent or received:
                    records[at] = like(record, fields={**record["fields"], name: value})

    return change


def _far(link: str) -> str:
    return link.rpartition("/")[2]


def _grows(name: str) -> Callable[[Sequence[Record], int], bool]:
    """The number is larger than at its first state, in a session that dials."""

    def where(records: Sequence[Record], place: int) -> bool:
        record = records[place]
        dialled = any(
            one.kind == "link" and one.node == record.node and one["action"] == "dial" for one in records
        )
        numbers = [one[name] for one in records if one.kind == "state" and one.node == record.node]
        return dialled and max(numbers) > 1 and record[name] == max(numbers)

    return where


damage(
    "connect_seq is 0 at every reconnect",
    "state",
    _frozen("connect_seq", 0),
    "connect_monotonic",
    where=_grows("connect_seq"),
)
damage(
    "all dials have one global_seq",
    "state",
    _frozen("global_seq", 1),
    "connect_monotonic",
    where=_grows("global_seq"),
)
damage(
    "a READY session has another client_cookie",
    "state",
    becomes(client_cookie=4711),
    "cookies",
    where=which(lambda r: _is_ready(r) and r["client_cookie"]),
)
damage(
    "a READY session has no server_cookie",
    "state",
    becomes(server_cookie=0),
    "cookies",
    where=which(lambda r: _is_ready(r) and r["server_cookie"]),
)
damage("a state names another peer", "state", becomes(peer=lambda r: r.node), "session_identity")
damage(
    "a session changes its policy",
    "state",
    becomes(policy=lambda r: "stateful_server" if r["policy"] != "stateful_server" else "lossy_client"),
    "session_identity",
    where=lambda records, place: (
        sum(
            r.kind == "state" and r.node == records[place].node and r["session"] == records[place]["session"]
            for r in records
        )
        > 1
    ),
    reason="of a session with one state nothing else tells the policy",
)
damage("a READY is missing", "state", drop, "one_event_per_link", where=which(_is_ready))
damage(
    "a second session with the peer is READY",
    "state",
    followed_by("state", **{name: of(name) for name in _STATE_FIELDS}, session=55),
    "one_event_per_link",
    where=which(_is_ready),
)

for _event in ("connect", "accept"):
    damage(f"{_event} is not told", "event", drop, "one_event_per_link", where=which(_is(_event)))
    damage(f"{_event} is told twice", "event", repeat, "one_event_per_link", where=which(_is(_event)))


def _behind_a_delivery(records: Records, place: int) -> None:
    move(records, place, _next_delivery(records, place))


def _next_delivery(records: Sequence[Record], place: int) -> int:
    record = records[place]
    return next(
        (
            at
            for at in range(place + 1, len(records))
            if records[at].kind == "deliver"
            and records[at].node == record.node
            and records[at]["session"] == record["session"]
        ),
        -1,
    )


def _delivers(records: Sequence[Record], place: int) -> bool:
    return _next_delivery(records, place) >= 0


def _old_message(records: Records, place: int) -> None:
    """A message of before is delivered again."""
    record = records[place]
    old = next(one for one in records if one.kind == "deliver" and one.node == record.node)
    records.insert(
        place + 1, Record(record.time_s, record.node, "deliver", {**old.fields, "session": record["session"]})
    )


def _has_old(records: Sequence[Record], place: int) -> bool:
    return any(one.kind == "deliver" and one.node == records[place].node for one in records[:place])


def _raised(event: str) -> Any:
    return followed_by("event", session=of("session"), peer=of("peer"), event=event, detail="")


damage(
    "remote_reset is not told",
    "event",
    drop,
    "no_stale_session",
    "exactly_once_lossless",
    where=which(_is("remote_reset")),
)
damage(
    "remote_reset is told twice",
    "event",
    repeat,
    "event_grammar",
    "no_stale_session",
    where=which(_is("remote_reset")),
)
damage("reset is not told", "event", drop, "at_most_once_lossy", "event_grammar", where=which(_is("reset")))
damage("reset is told twice", "event", repeat, "event_grammar", where=which(_is("reset")))
damage(
    "reset is told, and the session goes on",
    "event",
    _raised("reset"),
    "event_grammar",
    where=which(_is(*_OPENING)),
)
damage(
    "remote_reset is told for no reason",
    "event",
    _raised("remote_reset"),
    "no_stale_session",
    where=which(_is(*_OPENING)),
)
damage(
    "an opening is told behind its first message",
    "event",
    _behind_a_delivery,
    "one_event_per_link",
    where=both(which(_is(*_OPENING)), _delivers),
)
damage(
    "remote_reset is told behind a message of the next session",
    "event",
    _behind_a_delivery,
    "event_grammar",
    where=both(which(_is("remote_reset")), _delivers),
)
damage(
    "a message of the session before is delivered",
    "event",
    _old_message,
    "event_grammar",
    where=both(which(_is("remote_reset")), _has_old),
)
damage(
    "mark_down returns, and the session goes on",
    "event",
    followed_by("mark_down", session=of("session"), peer=of("peer")),
    "event_grammar",
    where=which(_is(*_OPENING)),
)
damage("an event names another peer", "event", becomes(peer=lambda r: r.node), "session_identity")
