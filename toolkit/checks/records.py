"""The kinds of history records and their fields: the table behind the format that history.py documents."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from sys import intern
from types import NoneType
from typing import Any

from messenger.errors import LocalError
from messenger.interception import Action
from messenger.outputs import EventKind
from messenger.session.session import IoState, SessionState

TIME_DIGITS = 9
"""Times are rounded to the nanosecond, so that sums on a virtual clock print without binary fractions."""
MESSAGE_TAGS = frozenset({"MESSAGE", "MSG"})
"""Tags of message frames, on v2 and on v1."""
HEAD_BYTES = 96
"""Length of a msgr 2.1 frame whose content fits into its head."""
FOLDED = "FOLDED"
"""Tag of a record that stands for several judged, consecutive frames (:mod:`toolkit.checks.settled_records`)."""
EARLIER = "earlier"
"""Field of a state record with which a session begins here, since earlier records have left the history."""
SETTLED = "settled"
"""Action of a record that stands for operations on an object that were judged already."""
MANGLINGS = ("flip", "truncate", "insert", "drop", "duplicate", "replay", "swap", "reflect", "rewrite", "join")
"""Changes that a man in the middle may make to a frame."""
OPERATION_VERBS = ("write", "append", "create", "remove", "omap_set", "read", "omap_get")
"""Operations of workloads on objects."""
_UNIQUE = frozenset({"digest"})
"""Fields whose texts rarely repeat between records, so that interning them saves no memory."""
_LONGEST_S = 1e9
_DEEPEST = 100
"""Maximum nesting: deeper values can be read, but perhaps not printed or written again."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a kind: its JSON types, its allowed words, and whether it may be missing."""

    types: tuple[type, ...]
    choices: frozenset[str] = frozenset()
    optional: bool = False

    def accepts(self, value: object) -> bool:
        """True if ``value`` is allowed in this field."""
        return type(value) in self.types and (not self.choices or value in self.choices)

    def __str__(self) -> str:
        if self.choices:
            return "one of " + ", ".join(sorted(self.choices))
        names = {
            int: "a whole number",
            float: "a number",
            str: "a text",
            dict: "an object",
            list: "a list",
            NoneType: "null",
        }
        return " or ".join(names[kind] for kind in self.types)


def _one_of(words: Iterable[str]) -> Field:
    return Field((str,), frozenset(words))


_TEXT = Field((str,))
_NOTE = Field((str,), optional=True)
_COUNT = Field((int,))
_NUMBER_OR_NULL = Field((int, NoneType))
_OBJECT = Field((dict,))
_NUMBER = Field((int, float))
_COUNT_IF_KNOWN = Field((int,), optional=True)
_SESSION_KEYS = {"session": _COUNT, "peer": _TEXT}
_MESSAGE_HEAD = {"priority": _COUNT_IF_KNOWN, "type": _COUNT_IF_KNOWN, "version": _COUNT_IF_KNOWN}
_PAIR = {"a": _TEXT, "b": _TEXT}

KINDS: Mapping[str, Mapping[str, Field]] = {
    "link": {
        "link": _TEXT,
        "action": _one_of(("dial", "accept", "open", "close")),
        "peer": _TEXT,
        "session": _NUMBER_OR_NULL,
        "detail": _NOTE,
    },
    "frame": {
        "link": _TEXT,
        "session": _NUMBER_OR_NULL,
        "direction": _one_of(("tx", "rx")),
        "tag": _TEXT,
        "index": _COUNT,
        "offset": _COUNT,
        "length": _COUNT,
        "fields": _OBJECT,
        "until_s": Field((int, float), optional=True),
    },
    "state": {
        **_SESSION_KEYS,
        "policy": _TEXT,
        "state": _one_of(SessionState),
        "connect_seq": _COUNT,
        "global_seq": _COUNT,
        "peer_global_seq": _COUNT,
        "client_cookie": _COUNT,
        "server_cookie": _COUNT,
        "in_seq": _COUNT,
        "out_seq": _COUNT,
        "acked_seq": _COUNT,
        "sent": _COUNT,
        "queued": _COUNT,
        "anonymous": Field((int,), optional=True),
        "why": _TEXT,
        "folded": Field((int,), optional=True),
        EARLIER: Field((int,), optional=True),
    },
    "decision": {"link": _TEXT, "session": _NUMBER_OR_NULL, "verdict": _TEXT, "why": _TEXT},
    "event": {**_SESSION_KEYS, "event": _one_of(EventKind), "detail": _TEXT},
    "send": {
        **_SESSION_KEYS,
        "tid": _COUNT,
        "digest": _TEXT,
        "size": _COUNT,
        **_MESSAGE_HEAD,
    },
    "deliver": {**_SESSION_KEYS, "tid": _COUNT, "seq": _COUNT, "digest": _TEXT, "size": _COUNT, **_MESSAGE_HEAD},
    "fault": {"session": _NUMBER_OR_NULL, "link": _TEXT, "reason": _TEXT, "detail": _TEXT},
    "mark_down": _SESSION_KEYS,
    "io": {
        "session": _COUNT,
        "link": Field((str, NoneType)),
        "shard": _COUNT,
        "state": _one_of(IoState),
    },
    "unhandled": {**_SESSION_KEYS, "seq": _COUNT, "type": _COUNT},
    "exhausted": {"what": _TEXT, "detail": _TEXT},
    "unsent": {**_SESSION_KEYS, "tid": _COUNT, "detail": _TEXT},
    "inject": {
        "link": Field((str,), optional=True),
        "session": Field((int, NoneType), optional=True),
        "option": _TEXT,
        "detail": _TEXT,
    },
    "intercept": {"link": _TEXT, "point": _TEXT, "action": _one_of(Action)},
    "throttle": {"name": _TEXT, "value": _COUNT, "limit": _COUNT},
    "wait": {"link": _TEXT, "name": _TEXT, "action": _one_of(("begin", "admit", "exceed", "leave"))},
    "auth": {
        "link": _TEXT,
        "session": _NUMBER_OR_NULL,
        "method": _TEXT,
        "mode": _one_of(("crc", "secure")),
        "modes": _TEXT,
        "cipher": _TEXT,
        "global_id": _COUNT,
        "ticket_left_s": Field((int, float, NoneType)),
        "key": _TEXT,
        "tx_nonce": _TEXT,
        "rx_nonce": _TEXT,
        "revision": _COUNT,
    },
    "usage": {
        "link": _TEXT,
        "tx_nonces": _COUNT,
        "rx_nonces": _COUNT,
        "handshake_bytes": _COUNT,
        "handshake_limit_bytes": _COUNT,
        "data_bytes": _COUNT,
        "data_limit_bytes": _COUNT,
    },
    "keepalive": {**_SESSION_KEYS, "interval_s": _NUMBER, "timeout_s": _NUMBER},
    "exception": {
        "where": _TEXT,
        "error": _TEXT,
        "link": Field((str, NoneType), optional=True),
        "session": Field((int, NoneType), optional=True),
    },
    "cut": {**_PAIR, "at": _OBJECT, "detail": _TEXT},
    "mangle": {**_PAIR, "at": _OBJECT, "what": _one_of(MANGLINGS), "detail": _NOTE},
    "path": {**_PAIR, "fault": _TEXT, "detail": _NOTE},
    "leak": {**_PAIR, "detail": _TEXT},
    "clock": {"step_s": _NUMBER},
    "operation": {
        "number": _TEXT,
        "action": _one_of(("invoke", "ok", "fail", "unknown", SETTLED)),
        "verb": _one_of(OPERATION_VERBS),
        "object": _TEXT,
        "value": Field((str, dict), optional=True),
        "error": _NOTE,
        "points": Field((list,), optional=True),
    },
    "step": {"verb": _TEXT, "args": _TEXT},
    "settled": {"incarnation": _COUNT, "links": _COUNT, "sessions": _COUNT, "largest": _OBJECT, "shards": _COUNT},
    "process": {
        "action": _one_of(("start", "stop", "kill", "exit", "freeze", "thaw")),
        "incarnation": _COUNT,
        "addrs": _NOTE,
        "options": Field((dict,), optional=True),
    },
    "end": {
        **dict.fromkeys(("registry", "dispatch_bytes", "links", "queued", "sent"), _COUNT),
        **dict.fromkeys(
            ("timers", "receive_bytes", "unwritten_bytes", "throttled", "arrivals", "sockets"), _COUNT_IF_KNOWN
        ),
    },
}
"""Every kind with its fields, in the order in which they are written."""
REQUIRED: Mapping[str, frozenset[str]] = {
    kind: frozenset(name for name, field in fields.items() if not field.optional) for kind, fields in KINDS.items()
}
"""By kind, the fields that every record must have."""


@dataclass(slots=True)
class Record:
    """One line of a history."""

    time_s: float
    """Seconds since the run began."""
    node: str
    kind: str
    fields: dict[str, Any]
    """The fields of its kind."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as JSON
        return self.fields[name]


def frames_of(record: Record) -> int:
    """Return the number of frames that a frame record stands for: more than one if they are folded."""
    return int(record["fields"]["frames"]) if record["tag"] == FOLDED else 1


def traffic_until_s(record: Record) -> float:
    """Return the time of a frame, or of the last of the frames that its record stands for."""
    return float(record.fields.get("until_s", record.time_s))


def long_frames_of(record: Record) -> int:
    """Return the number of frames in the record that are longer than the head of a msgr 2.1 frame."""
    return int(record["fields"]["long"]) if record["tag"] == FOLDED else int(record["length"] > HEAD_BYTES)


def largest_of(record: Record) -> list[tuple[str, int]]:
    """Return, from a ``settled`` record, the sizes in bytes of the largest messages, with their receivers."""
    return [(node, size) for node, size in record["largest"].items() if type(size) is int]


def check_kind(kind: str) -> Mapping[str, Field]:
    """Return the fields of a kind.

    Raises:
        LocalError: no such kind.
    """
    known = KINDS.get(kind)
    if known is None:
        raise LocalError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    return known


_encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps makes an encoder for each call
_HEAD_FIELDS = 3


def dump_record(record: Record) -> str:
    """Return the record as one line of JSON, without a line end; equal records give equal text.

    Raises:
        LocalError: a value that is not JSON.
    """
    known = check_kind(record.kind)
    fields = record.fields
    ordered: dict[str, Any] = {"time": record.time_s, "node": record.node, "kind": record.kind}
    ordered.update([(name, fields[name]) for name in known if name in fields])
    if len(ordered) < len(fields) + _HEAD_FIELDS:
        ordered.update([(name, fields[name]) for name in sorted(fields.keys() - known.keys())])
    try:
        return _encode(ordered)
    except (TypeError, ValueError) as error:
        raise LocalError(f"{record.kind} record of {record.node}: {error}") from None


def sharing_words(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with names and common words interned, so that each is in memory once.

    A record parsed from JSON takes two and a half times as much memory without this.
    """
    return {
        intern(name): sharing_words(value)
        if type(value) is dict
        else intern(value)
        if type(value) is str and name not in _UNIQUE
        else value
        for name, value in fields.items()
    }


def parse_record(line: str) -> Record:
    """Parse a record from one line of JSON.

    Raises:
        LocalError: the line is not a record; the text gives the reason.
    """
    try:
        fields = json.loads(line, parse_constant=_not_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise LocalError(f"not JSON: {error}") from None
    if line.count("[") + line.count("{") > _DEEPEST and _too_deep(fields):
        raise LocalError(f"lists and objects nested more than {_DEEPEST} deep")
    if not isinstance(fields, dict):
        raise LocalError(f"a record is a JSON object, this is {type(fields).__name__}")
    time_s, node, kind = (fields.pop(name, None) for name in ("time", "node", "kind"))
    if type(time_s) not in {int, float} or not -_LONGEST_S < time_s < _LONGEST_S:
        raise LocalError(f"time is {time_s!r}; give the seconds since the run began")
    if not isinstance(node, str) or not isinstance(kind, str):
        raise LocalError("every record has the texts node and kind")
    _check_fields(kind, fields)
    return Record(float(time_s), intern(node), intern(kind), sharing_words(fields))


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _not_finite(text)


def _not_finite(text: str) -> float:
    """Reject NaN and infinities, which Python's JSON parser accepts although they are not JSON."""
    raise ValueError(f"{text} is not a number of JSON")


def _too_deep(value: object) -> bool:
    """True if the value is nested deeper than ``_DEEPEST``.

    Walks iteratively: a hostile history may be nested deeper than the recursion limit.
    """
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def _check_fields(kind: str, fields: dict[str, Any]) -> None:
    for name, field in check_kind(kind).items():
        if name not in fields:
            if not field.optional:
                raise LocalError(f"{kind} record without {name}")
        elif not field.accepts(fields[name]):
            raise LocalError(f"{kind} record: {name} is {fields[name]!r}, must be {field}")
