"""Links, decisions on them, their keys and their cost; and what nodes count at rest."""

from collections.abc import Callable, Sequence

from tests.toolkit.checks.damage.damage import (
    Records,
    becomes,
    both,
    damage,
    drop,
    followed_by,
    like,
    more,
    of,
    which,
)
from toolkit.checks.records import Record

_DIALS = 200


def _has_action(*actions: str) -> Callable[[Record], bool]:
    return lambda record: record["action"] in actions


def _dial_again(records: Records, place: int) -> None:
    record = records[place]
    records.insert(place + 1, like(record, link=record["link"] + "9"))


def _dial_all_the_time(records: Records, place: int) -> None:
    """The session dials, and gives up, many times at once."""
    record = records[place]
    attempts = [
        like(record, link=f"{record['link']}{number:03}", action=action)
        for number in range(_DIALS)
        for action in ("dial", "close")
    ]
    records[place:place] = attempts


def _use_again(records: Records, place: int) -> None:
    """A frame is written behind the end of the link."""
    record = records[place]
    frames = [
        one
        for one in records[:place]
        if one.kind == "frame" and one["link"] == record["link"] and one["direction"] == "tx"
    ]
    last = frames[-1]
    frame = like(last, index=last["index"] + 1, offset=last["offset"] + last["length"])
    records.insert(place + 1, Record(record.time_s, record.node, "frame", frame.fields))


def _was_used(records: Sequence[Record], place: int) -> bool:
    record = records[place]
    return record["action"] == "close" and any(
        one.kind == "frame" and one["link"] == record["link"] and one["direction"] == "tx"
        for one in records[:place]
    )


damage("a link is never closed", "link", drop, "link_lifecycle", where=which(_has_action("close")))
damage(
    "a link is closed, and goes on",
    "link",
    followed_by("link", link=of("link"), action="close", peer=of("peer"), session=of("session"), detail=""),
    "link_lifecycle",
    where=which(_has_action("open", "accept")),
)
damage("a link is used behind its end", "link", _use_again, "link_lifecycle", where=_was_used)
damage("an accept is missing", "link", drop, "link_lifecycle", where=which(_has_action("accept")))
damage("a dial is missing", "link", drop, "link_lifecycle", where=which(_has_action("dial")))
damage("a session dials twice at once", "link", _dial_again, "link_lifecycle", where=which(_has_action("dial")))
damage(
    "a session dials 200 times at once",
    "link",
    _dial_all_the_time,
    "redial_pause",
    where=which(_has_action("dial")),
)
damage("a fault has a name that nobody knows", "fault", becomes(reason="WHATEVER"), "table_total")


def _closes(records: Sequence[Record], place: int) -> bool:
    """The link it breaks is closed by it alone."""
    fault = records[place]
    return sum(one.kind == "fault" and one["link"] == fault["link"] for one in records) == 1


damage(
    "a fault is missing",
    "fault",
    drop,
    "link_lifecycle",
    where=_closes,
    reason="a link that breaks twice has another one",
)
damage(
    "a decision is reversed",
    "decision",
    becomes(verdict=lambda r: "WAIT" if r["verdict"] != "WAIT" else "REUSE"),
    "decided_answer",
)
damage("a decision is missing", "decision", drop, "decided_answer")

# ---- keys

_AUTH = "auth"


def _all_crc(records: Records, _place: int) -> None:
    records[:] = [like(one, mode="crc", modes="secure crc") if one.kind == _AUTH else one for one in records]


def _one_key(records: Records, place: int) -> None:
    key = records[place]["key"]
    records[:] = [like(one, key=key) if one.kind == _AUTH else one for one in records]


def _has_links(records: Sequence[Record], place: int) -> bool:
    links = {one["link"] for one in records if one.kind == _AUTH and one.node == records[place].node}
    return bool(records[place]["key"]) and len(links) > 1


def _has_key(record: Record) -> bool:
    return bool(record["key"])


damage(
    "one end has another mode",
    _AUTH,
    becomes(mode=lambda r: "crc" if r["mode"] == "secure" else "secure"),
    "no_downgrade",
)
damage("both ends prefer secure, and get crc", _AUTH, _all_crc, "no_downgrade")
damage(
    "one end has another cipher",
    _AUTH,
    becomes(cipher=lambda r: "aes" if r["cipher"] == "aes256k" else "aes256k"),
    "no_downgrade",
)
damage("one end has another global_id", _AUTH, more("global_id"), "agreement")
damage("one end has another key", _AUTH, becomes(key="dead"), "agreement", where=which(_has_key))
damage("all links have one key", _AUTH, _one_key, "nonce_unique", where=_has_links)
damage(
    "both directions have one nonce",
    _AUTH,
    becomes(tx_nonce=of("rx_nonce")),
    "nonce_unique",
    where=which(_has_key),
)
damage("one end has another revision", _AUTH, becomes(revision=lambda r: 1 - r["revision"]), "agreement")
damage("one end has another method", _AUTH, becomes(method="none"), "no_downgrade")
damage(
    "a ticket has expired when it is shown",
    _AUTH,
    becomes(ticket_left_s=-30.0),
    "ticket_time",
    where=which(lambda r: r.fields.get("ticket_left_s") is not None),
)

# ---- cost

damage(
    "a handshake takes more than its limit",
    "usage",
    becomes(handshake_bytes=lambda r: r["handshake_limit_bytes"] + 1),
    "bounded_memory",
)
damage(
    "data take more than their limit",
    "usage",
    becomes(data_bytes=lambda r: r["data_limit_bytes"] + 1),
    "bounded_memory",
)
damage("what a link used is missing", "usage", drop, "link_lifecycle")
damage(
    "a link took more nonces than frames",
    "usage",
    more("tx_nonces", 1000),
    "nonce_unique",
    where=which(lambda r: r["tx_nonces"]),
)
damage(
    "a link took one nonce more than its frames",
    "usage",
    more("tx_nonces"),
    "nonce_unique",
    where=which(lambda r: r["tx_nonces"]),
)
damage(
    "a link took fewer nonces than frames",
    "usage",
    becomes(tx_nonces=1),
    "nonce_unique",
    where=which(lambda r: r["tx_nonces"] > 2),
)
damage("a throttle is negative", "throttle", becomes(value=-1), "throttle_balanced")
damage(
    "a throttle is far above its limit",
    "throttle",
    becomes(value=lambda r: r["limit"] * 3 + 10_000_000),
    "throttle_balanced",
    where=which(of("limit")),
)


def _keep_one(records: Records, place: int) -> None:
    """The last word of the throttle is that it holds something."""
    throttle = records[place]
    last = max(
        at
        for at, one in enumerate(records)
        if one.kind == "throttle" and one.node == throttle.node and one["name"] == throttle["name"]
    )
    records[last] = like(records[last], value=1)


def _at_rest(records: Sequence[Record], place: int) -> bool:
    return any(one.kind == "end" and one.node == records[place].node for one in records)


def _admit_the_next(records: Records, place: int) -> None:
    """The link that has waited for the shorter time is admitted in place of the other."""
    records[place] = like(records[place], link=_waits_behind(records, place))


def _on_one_shard(records: Sequence[Record], place: int) -> bool:
    """It is not known which links wait for the throttle of which shard."""
    node = records[place].node
    return not any(one.kind == "io" and one.node == node and one["shard"] > 1 for one in records)


def _waits_behind(records: Sequence[Record], place: int) -> str:
    """Another link that waits for the throttle when a link is admitted; empty if none does."""
    record = records[place]
    line: list[str] = []
    for one in records[:place]:
        if one.kind == "wait" and (one.node, one["name"]) == (record.node, record["name"]):
            (line.append if one["action"] == "begin" else line.remove)(one["link"])
        elif one.kind == "process" and one.node == record.node:
            line.clear()
    return next((link for link in line if link != record["link"]), "")


damage(
    "a link that waits for a throttle is passed over",
    "wait",
    _admit_the_next,
    "throttle_turns",
    where=both(
        _on_one_shard,
        lambda records, place: records[place]["action"] == "admit" and bool(_waits_behind(records, place)),
    ),
)
damage(
    "a link is admitted that does not wait",
    "wait",
    followed_by("wait", link=of("link"), name=of("name"), action="admit"),
    "throttle_turns",
    where=both(_on_one_shard, which(lambda r: r["action"] != "begin")),
)
damage("a throttle is not given back", "throttle", _keep_one, "throttle_balanced", where=_at_rest)

for _name, _by, _invariant in (
    ("queued", 1, "liveness"),
    ("sent", 1, "liveness"),
    ("links", 1, "link_lifecycle"),
    ("links", -1, "link_lifecycle"),
    ("registry", 1, "one_session_per_peer"),
    ("registry", -1, "one_session_per_peer"),
    ("dispatch_bytes", 5, "throttle_balanced"),
    ("timers", 3, "quiescence"),
    ("receive_bytes", 9, "quiescence"),
    ("unwritten_bytes", 9, "quiescence"),
    ("throttled", 1, "throttle_balanced"),
    ("arrivals", 1, "throttle_balanced"),
):
    damage(
        f"at rest {_name} is {_by:+}",
        "end",
        more(_name, _by),
        _invariant,
        where=which(lambda r, name=_name, by=_by: r.fields.get(name, -1) + by >= 0 and name in r.fields),
    )
damage(
    "a node's count at rest is missing",
    "end",
    drop,
    reason="nothing says that a run came to rest but these counts",
)
damage("somebody hears plain text", "end", followed_by("leak", a="a", b="b", detail="a payload"), "no_plaintext")
