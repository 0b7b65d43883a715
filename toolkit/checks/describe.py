"""Describes records in one line each, for tables, charts and verdicts."""

from collections.abc import Callable, Mapping
from typing import Any

from toolkit.checks.records import MESSAGE_TAGS, SETTLED, Record

NOTABLE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "HELLO": ("entity_type",),
    "AUTH_REQUEST": ("method", "preferred_modes"),
    "AUTH_BAD_METHOD": ("result", "allowed_methods"),
    "AUTH_DONE": ("global_id", "con_mode"),
    "CLIENT_IDENT": ("global_seq", "client_cookie"),
    "SERVER_IDENT": ("global_seq", "server_cookie"),
    "IDENT_MISSING_FEATURES": ("features",),
    "SESSION_RECONNECT": ("connect_seq", "msg_seq"),
    "SESSION_RECONNECT_OK": ("msg_seq",),
    "SESSION_RESET": ("full",),
    "SESSION_RETRY": ("connect_seq",),
    "SESSION_RETRY_GLOBAL": ("global_seq",),
    "MESSAGE": ("seq", "tid"),
    "ACK": ("seq",),
    "CONNECT": ("global_seq", "connect_seq"),
    "CONNECT_REPLY": ("tag", "global_seq", "connect_seq"),
    "SEQ": ("seq",),
    "MSG": ("seq", "tid"),
    "COMPRESSION_REQUEST": ("is_compress",),
    "COMPRESSION_DONE": ("is_compress",),
}
"""By tag, the fields that a reader looks for first."""

_LARGEST_PLAIN = 999_999
"""Larger numbers are cookies and masks, which are shown in hex."""
_BRIEF = 8
"""Digits of a cookie that are enough to identify it."""


def show(value: object) -> str:
    """Format a field's value for display."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int) and value > _LARGEST_PLAIN:
        return f"{value:x}"
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    return str(value)


def _brief(value: object) -> str:
    text = show(value)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"


def summary(tag: str, fields: Mapping[str, Any]) -> str:
    """Return the main fields of a frame, as ``seq 4 · tid 9``; a message's name first, cookies abbreviated."""
    parts = [f"{name} {_brief(fields[name])}" for name in NOTABLE_FIELDS.get(tag, ()) if name in fields]
    if tag in MESSAGE_TAGS and "name" in fields:
        parts.insert(0, show(fields["name"]))
    return " · ".join(parts)


def cut_point(at: Mapping[str, Any]) -> str:
    """Return the place of a cut, as ``at byte 17 of a's MESSAGE 3``; empty for an immediate cut."""
    frame = " ".join(show(at[name]) for name in ("tag", "nth") if at.get(name) is not None)
    if at.get("sender") is not None:
        frame = f"{show(at['sender'])}'s {frame}"
    if not frame:
        return ""
    return f"after {frame}" if at.get("byte") is None else f"at byte {show(at['byte'])} of {frame}"


def _with(text: str, detail: object) -> str:
    return f"{text}: {detail}" if detail else text


def _frame(f: Mapping[str, Any]) -> str:
    text = f"{f['direction']} {f['tag']} on {f['link']}, {f['length']} bytes"
    return _with(text, summary(f["tag"], f["fields"]))


def _state(f: Mapping[str, Any]) -> str:
    seqs = f"in {f['in_seq']}, out {f['out_seq']}, acked {f['acked_seq']}"
    queues = f"{f['sent']} to replay, {f['queued']} queued"
    text = f"session {f['session']} with {f['peer']} {f['state']} ({f['policy']}; {seqs}; {queues})"
    return _with(text, f["why"])


def _throttle(f: Mapping[str, Any]) -> str:
    limit = f" of {f['limit']:,}" if f["limit"] else ""
    return f"{f['name']} holds {f['value']:,}{limit}"


def _auth(f: Mapping[str, Any]) -> str:
    left_s = f["ticket_left_s"]
    ticket = "" if left_s is None else f", ticket good for {left_s:.0f} s"
    key = f", key {f['key']}" if f["key"] else ""
    return f"{f['link']} authenticated by {f['method']}, {f['cipher']}, {f['mode']} of {f['modes']}{ticket}{key}"


def _usage(f: Mapping[str, Any]) -> str:
    nonces = f"{f['tx_nonces']:,} nonces to send, {f['rx_nonces']:,} to receive"
    return f"{f['link']} used {nonces}, {f['handshake_bytes']:,} and {f['data_bytes']:,} bytes of memory"


def _mangle(f: Mapping[str, Any]) -> str:
    return _with(f"between {f['a']} and {f['b']}: {f['what']} {cut_point(f['at'])}".rstrip(), f.get("detail"))


def _keepalive(f: Mapping[str, Any]) -> str:
    subject = f"session {f['session']} with {f['peer']}"
    if not f["interval_s"]:
        return f"{subject}: no more keepalives"
    limit = f", silence of {f['timeout_s']:g} s breaks the link" if f["timeout_s"] else ""
    return f"{subject}: keepalive every {f['interval_s']:g} s{limit}"


def _end(f: Mapping[str, Any]) -> str:
    queues = f"{f['queued']} queued, {f['sent']} unacknowledged, {f['dispatch_bytes']} bytes held"
    return f"at rest with {f['registry']} registered sessions, {f['links']} links; {queues}"


def _operation(f: Mapping[str, Any]) -> str:
    if f["action"] == SETTLED:
        ways = len(f.get("points", ()))
        return f"{f['object']} was judged up to {f['verb']} {f['number']}; it may be in {ways} states then"
    value = _with(f"{f['action']} {f['verb']} {f['object']}, operation {f['number']}", show(f.get("value", "")))
    return _with(value, f.get("error"))


_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "link": lambda f: _with(f"{f['link']} {f['action']} {f['peer']}", f.get("detail")),
    "frame": _frame,
    "state": _state,
    "decision": lambda f: f"{f['verdict']} on {f['link']}: {f['why']}",
    "event": lambda f: _with(f"session {f['session']} with {f['peer']}: {f['event']}", f["detail"]),
    "send": lambda f: f"session {f['session']} to {f['peer']}: tid {f['tid']}, {f['size']} bytes",
    "deliver": lambda f: (
        f"session {f['session']} from {f['peer']}: tid {f['tid']}, seq {f['seq']}, {f['size']} bytes"
    ),
    "fault": lambda f: _with(f"{f['link']}: {f['reason']}", f["detail"]),
    "mark_down": lambda f: f"session {f['session']} with {f['peer']} marked down",
    "io": lambda f: f"session {f['session']} io {f['state']} on shard {f['shard']}",
    "unhandled": lambda f: (
        f"session {f['session']} from {f['peer']}: no dispatcher accepts type {f['type']}, seq {f['seq']}"
    ),
    "exhausted": lambda f: _with(f"{f['what']} failed", f["detail"]),
    "unsent": lambda f: _with(f"session {f['session']} to {f['peer']}: tid {f['tid']} is dropped", f["detail"]),
    "inject": lambda f: _with(
        f"{f['option']} at {f.get('link') or 'session ' + str(f.get('session'))}", f["detail"]
    ),
    "intercept": lambda f: f"{f['action']} at {f['point']} on {f['link']}",
    "throttle": _throttle,
    "wait": lambda f: f"{f['link']} waits for {f['name']}: {f['action']}",
    "auth": _auth,
    "usage": _usage,
    "keepalive": _keepalive,
    "exception": lambda f: f"{f['error']} escaped in {f['where']}",
    "mangle": _mangle,
    "path": lambda f: _with(f"{f['fault']} {f['a']} {f['b']}".rstrip(), f.get("detail")),
    "leak": lambda f: f"plain text between {f['a']} and {f['b']}: {f['detail']}",
    "clock": lambda f: f"clock moved by {f['step_s']:+g} s",
    "cut": lambda f: f"{f['a']} and {f['b']} cut {cut_point(f['at']) or f['detail']}".rstrip(),
    "operation": _operation,
    "step": lambda f: f"{f['verb']} {f['args']}".rstrip(),
    "settled": lambda f: f"incarnation {f['incarnation']}: the records of {f['links']} links were judged and left",
    "process": lambda f: f"{f['action']}, incarnation {f['incarnation']}",
    "end": _end,
}


def describe(record: Record) -> str:
    """Describe the record in one line, without its time and node."""
    return _WORDS[record.kind](record.fields)
