"""The numbers that order a session's connection attempts, and its cookies (docs/protocol.md §3.6, §4.9)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from messenger.outputs import EventKind
from messenger.session.session import SessionState
from toolkit.checks.model.counts import Counts
from toolkit.checks.model.problems import About, Problems
from toolkit.checks.openings import GRANTS
from toolkit.checks.records import Record
from toolkit.checks.wires import Entry, LinkLog

_NUMBERS = ("connect_seq", "global_seq", "peer_global_seq", "client_cookie", "server_cookie")
_COOKIES = frozenset({"client_cookie", "server_cookie"})
_ANEW = frozenset({"REPLACE_RESET", "REPLACE_FRESH"})
"""Decisions of v1 by which the peer starts a new session."""

_WITHOUT_EFFECT = frozenset({"WAIT", "CHALLENGE_AUTHORIZER", "BADAUTHORIZER", "BADPROTOVER", "FEATURES"})
"""Replies of v1 that change no number."""
_CONNECTOR, _ACCEPTOR = True, False
_REPLY = ("connect_seq", "global_seq")
_ASKED = {"CLIENT_IDENT": ("client_cookie", "global_seq"), "SESSION_RECONNECT": ("connect_seq", "msg_seq")}
_RESUMED = ("connect_seq", "global_seq", "client_cookie", "server_cookie", "msg_seq")
_Act = Callable[["Attempt", int, dict[str, Any], LinkLog], None]
_Table = Mapping[tuple[str, str, bool], tuple[_Act, tuple[str, ...]]]


class Attempt:
    """The numbers of a session's connection attempts; None until the next state record gives them.

    Args:
        problems: collects the problems.
        counts: the session's message numbers, which handshakes change too.
        is_held: True if an interceptor held a link at a tag, so that the effect of the frame is unknown.
    """

    def __init__(self, problems: Problems, counts: Counts, is_held: Callable[[LinkLog, str], bool]) -> None:
        self._problems = problems
        self._counts = counts
        self._is_held = is_held
        self._known: dict[str, int | None] = dict.fromkeys(_NUMBERS, 0)
        self._state = ""
        self._granting: LinkLog | None = None
        """An incoming link that takes the session over."""
        self._taken_over = False
        """True if an incoming link took the session over since the last state."""
        self._anew = False
        """v1: True if the peer that takes the session over has lost it, so that it counts from 1 again."""
        self.is_certain = True
        """True if the numbers were never unknown."""
        self._uncertain = False
        """True if only the next state record shows whether a frame took effect."""

    # ---- frames

    def frame(self, entry: Entry, link: LinkLog) -> None:
        """Process a frame of a handshake."""
        position, record = entry
        fields = record.fields
        known = self._FRAMES.get((fields["tag"], fields["direction"], link.dialled))
        if known is None:
            return
        act, names = known
        if not _has(fields["fields"], names):
            self.lose()
            return
        effective = fields["direction"] == "rx" and fields["fields"].get("tag") not in _WITHOUT_EFFECT
        if effective and (self._is_held(link, fields["tag"]) or _broke(entry, link)):
            self.lose()
            return
        act(self, position, fields["fields"], link)

    def _client_ident(self, position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        if self._known["client_cookie"]:
            self._check(position, fields, "client_cookie")
        self._known["client_cookie"] = fields["client_cookie"]
        self._drawn(position, fields)

    def _reconnect(self, position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        for name in ("connect_seq", "client_cookie", "server_cookie"):
            self._check(position, fields, name)
            self._known[name] = fields[name]
        self._drawn(position, fields)
        self._counts.check_acknowledged(position, fields["msg_seq"], "SESSION_RECONNECT")

    def _connect(self, position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._check(position, fields, "connect_seq")
        self._known["connect_seq"] = fields["connect_seq"]
        self._drawn(position, fields)

    def _drawn(self, position: int, fields: dict[str, Any]) -> None:
        self._check(position, fields, "global_seq")
        self._known["global_seq"] = fields["global_seq"]

    def _server_ident(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._known["server_cookie"] = fields["server_cookie"]
        self._known["peer_global_seq"] = fields["global_seq"]
        self._counts.forget_received()
        self._counts.forget_sent()

    def _reconnect_ok(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._counts.discard_up_to(fields["msg_seq"])

    def _session_reset(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._known["server_cookie"] = self._known["connect_seq"] = 0
        if fields.get("full"):
            self._known["client_cookie"] = self._known["peer_global_seq"] = 0
            self._counts.reset()
        else:
            self._counts.forget_received()
            self._counts.forget_sent()

    def _retry(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._known["connect_seq"] = fields["connect_seq"] + 1

    def _retry_global(self, _position: int, _fields: dict[str, Any], _link: LinkLog) -> None:
        self._known["global_seq"] = None

    def _reply_read(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        tag = fields.get("tag")
        if tag == "RETRY_GLOBAL":
            self._known["global_seq"] = None
        elif tag == "RETRY_SESSION":
            self._known["connect_seq"] = fields["connect_seq"]
        elif tag == "RESETSESSION":
            self._known["connect_seq"] = 0
            self._counts.reset()
        elif tag == "READY":
            self._opened(fields)

    def _opened(self, reply: dict[str, Any]) -> None:
        self._known["connect_seq"] = reply["connect_seq"]
        self._known["peer_global_seq"] = reply["global_seq"]

    def _seq_written(self, position: int, fields: dict[str, Any], link: LinkLog) -> None:
        self._counts.check_acknowledged(position, fields["seq"], "SEQ")
        if link.dialled:
            reply = _last(link, "CONNECT_REPLY", position)
            if reply is None or not _has(reply, _REPLY):
                self.lose()
            else:
                self._opened(reply)

    def _seq_read(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._counts.discard_up_to(fields["seq"])

    # ---- an acceptor's side

    def _ident_answered(self, _position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._known["server_cookie"] = fields["server_cookie"]
        self._known["global_seq"] = fields["global_seq"]

    def _reconnect_answered(self, position: int, fields: dict[str, Any], _link: LinkLog) -> None:
        self._counts.check_acknowledged(position, fields["msg_seq"], "SESSION_RECONNECT_OK")

    def _reply_written(self, position: int, fields: dict[str, Any], link: LinkLog) -> None:
        if fields.get("tag") not in {"READY", "SEQ"}:
            return
        request = _last(link, "CONNECT", position)
        self._granting, self._uncertain = None, False
        self._known["connect_seq"] = fields["connect_seq"]
        self._known["global_seq"] = fields["global_seq"]
        self._known["peer_global_seq"] = None if request is None else request.get("global_seq")
        self._counts.requeue()
        if self._anew:
            self._anew = False
            self._counts.forget_received()
            self._counts.forget_sent()

    def decision(self, record: Record, link: LinkLog) -> None:
        """Process the decision about an incoming link."""
        verdict = record.fields["verdict"]
        if verdict in GRANTS or verdict.startswith("REPLACE"):
            self._granting, self._taken_over = link, True
        if verdict.startswith("REPLACE"):
            self._anew = verdict in _ANEW

    def _accepted(self, position: int) -> None:
        """v2: process the accept event; the answer follows it."""
        link = self._granting
        if link is None or not _is_v2(link):
            return
        self._granting = None
        if self._state in {"", SessionState.WAIT}:
            self._state = SessionState.ESTABLISHING
        asked = (frame for at, frame in reversed(link.talk) if at < position and frame.fields["tag"] in _ASKED)
        request = next(asked, None)
        if request is None or not _has(request.fields["fields"], _ASKED[request.fields["tag"]]):
            self.lose()
            return
        fields = request.fields["fields"]
        self._known["peer_global_seq"] = fields["global_seq"]
        if request.fields["tag"] == "CLIENT_IDENT":
            self._known["client_cookie"] = fields["client_cookie"]
            self._known["server_cookie"] = self._known["global_seq"] = None
            self._counts.requeue()
            self._counts.forget_received()
            self._counts.forget_sent()
        else:
            self._known["connect_seq"] = fields["connect_seq"]
            self._counts.discard_up_to(fields["msg_seq"])

    # ---- other events

    def forget(self) -> None:
        """Forget all numbers: earlier records have left the history."""
        self._known = dict.fromkeys(_NUMBERS)

    def lose(self) -> None:
        """Forget all numbers: a frame was recorded without its numbers, or its effect is unknown."""
        self._uncertain = True
        self.forget()
        self._counts.forget()

    def dialled(self, link: LinkLog) -> None:
        """Process a dial: it draws a global_seq, and perhaps a client_cookie for a blocked CLIENT_IDENT."""
        self._known["global_seq"] = None
        if not self._known["client_cookie"] and self._is_held(link, "CLIENT_IDENT"):
            self._known["client_cookie"] = None

    def event(self, position: int, event: str, *, is_v1: bool) -> None:
        """Process a session event."""
        if event == EventKind.ACCEPT:
            self._accepted(position)
        elif event == EventKind.REMOTE_RESET:
            kept = self._known["peer_global_seq"]
            self._known.update(dict.fromkeys(_NUMBERS, 0), global_seq=self._known["global_seq"])
            if is_v1:
                self._known["peer_global_seq"] = kept
            self._counts.reset()

    def state(self, position: int, fields: dict[str, Any]) -> None:
        """Compare the numbers with a state record, and take over those of the record."""
        known, state = self._known, fields["state"]
        uncertain = self._uncertain or self._granting is not None
        if uncertain:
            self.is_certain = False
            self._counts.forget()
        else:
            self._step(fields)
            for name in _NUMBERS:
                expected = known[name]
                if expected is not None and fields[name] != expected:
                    self._wrong(position, name, fields[name], expected)
        for name in _NUMBERS:
            known[name] = fields[name]
        if state == SessionState.WAIT and fields["server_cookie"]:
            known["connect_seq"] = fields["connect_seq"] + 1  # its link ends directly after this
        self._state, self._uncertain, self._taken_over, self._granting = state, False, False, None

    def _step(self, fields: dict[str, Any]) -> None:
        """Count connect_seq up at each dial of a session that was open, or that has a server_cookie."""
        before, state, value = self._state, fields["state"], self._known["connect_seq"]
        if value is None or before in {"", SessionState.WAIT} or state != SessionState.CONNECTING:
            return
        cookie = self._known["server_cookie"]
        grown = before == SessionState.READY or bool(fields["server_cookie"] if cookie is None else cookie)
        if self._taken_over and fields["connect_seq"] in {value, value + 1}:
            self._known["connect_seq"] = fields["connect_seq"]
        elif grown:
            self._known["connect_seq"] = value + 1

    # ---- comparison

    def _check(self, position: int, fields: dict[str, Any], name: str) -> None:
        expected = self._known[name]
        if not self._uncertain and expected is not None and fields[name] != expected:
            self._wrong(position, name, fields[name], expected)

    def _wrong(self, position: int, name: str, value: int, expected: int) -> None:
        if name in _COOKIES:
            text = f"{name} is {value:x}, by its frames it is {expected:x}"
            self._problems.add(position, About.COOKIE, text)
        else:
            self._problems.add(position, About.ATTEMPT, f"{name} is {value}, by its frames it is {expected}")

    _FRAMES: ClassVar[_Table] = {
        ("CLIENT_IDENT", "tx", _CONNECTOR): (_client_ident, ("client_cookie", "global_seq")),
        ("SESSION_RECONNECT", "tx", _CONNECTOR): (_reconnect, _RESUMED),
        ("SERVER_IDENT", "rx", _CONNECTOR): (_server_ident, ("server_cookie", "global_seq")),
        ("SESSION_RECONNECT_OK", "rx", _CONNECTOR): (_reconnect_ok, ("msg_seq",)),
        ("SESSION_RESET", "rx", _CONNECTOR): (_session_reset, ()),
        ("SESSION_RETRY", "rx", _CONNECTOR): (_retry, ("connect_seq",)),
        ("SESSION_RETRY_GLOBAL", "rx", _CONNECTOR): (_retry_global, ()),
        ("CONNECT", "tx", _CONNECTOR): (_connect, _REPLY),
        ("CONNECT_REPLY", "rx", _CONNECTOR): (_reply_read, _REPLY),
        ("SEQ", "rx", _CONNECTOR): (_seq_read, ("seq",)),
        ("SEQ", "tx", _CONNECTOR): (_seq_written, ("seq",)),
        ("SERVER_IDENT", "tx", _ACCEPTOR): (_ident_answered, ("server_cookie", "global_seq")),
        ("SESSION_RECONNECT_OK", "tx", _ACCEPTOR): (_reconnect_answered, ("msg_seq",)),
        ("CONNECT_REPLY", "tx", _ACCEPTOR): (_reply_written, _REPLY),
        ("SEQ", "rx", _ACCEPTOR): (_seq_read, ("seq",)),
        ("SEQ", "tx", _ACCEPTOR): (_seq_written, ("seq",)),
    }
    """By tag, direction and whether this end dialled: the effect of a frame, and the numbers it needs."""

    TAGS = frozenset(tag for tag, _, _ in _FRAMES)
    """The frames that carry or change the numbers."""


def _broke(entry: Entry, link: LinkLog) -> bool:
    """True if the frame broke its link, so that it may have had no effect."""
    position, record = entry
    return link.rx[-1] is entry and any(
        at > position and fault.time_s == record.time_s for at, fault in link.faults
    )


def _is_v2(link: LinkLog) -> bool:
    return any(record.fields["tag"] == "HELLO" for _, record in link.rx[:3])


def _has(fields: dict[str, Any], names: tuple[str, ...]) -> bool:
    return all(type(fields.get(name)) is int for name in names)


def _last(link: LinkLog, tag: str, before: int) -> dict[str, Any] | None:
    """Return the fields of the last frame of a tag received before a position; None if there is none."""
    frames = (record.fields for at, record in reversed(link.talk) if at < before)
    return next((frame["fields"] for frame in frames if frame["tag"] == tag and frame["direction"] == "rx"), None)
