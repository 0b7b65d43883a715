"""Verdicts on dials that race with a session's own (docs/protocol.md §3.4, §4.9).

They are judged from the record of the session's state before the verdict and from the frame that was received, by
rules of their own: not by the tables that the messenger uses.
"""

from bisect import bisect_left
from collections import defaultdict
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from messenger.errors import FaultReason
from messenger.session.states import SessionState
from toolkit.checks.index import Index
from toolkit.checks.openings import GRANTS
from toolkit.checks.races import Places
from toolkit.checks.records import Record
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Entry, SessionKey, SessionLog
from toolkit.checks.wires import LinkLog

_AT_REST = frozenset({SessionState.READY, SessionState.STANDBY})
"""States in which a session does not dial. On v1, READY includes the wait for the peer's in_seq."""
_RENUMBERED = frozenset({"SESSION_RESET", "SESSION_RETRY", "RESETSESSION", "RETRY_SESSION"})
"""Answers after which a session dials with another connect_seq; the last two are tags of CONNECT_REPLY."""
_ASKS = frozenset({"CLIENT_IDENT", "SESSION_RECONNECT", "CONNECT"})


class _Dial(NamedTuple):
    """A peer's dial about which a session decides."""

    position: int
    verdict: str
    link: LinkLog
    log: SessionLog
    state_at: int
    """Position of the session's last state record before the verdict."""
    state: Record
    tag: str
    asked: dict[str, Any]
    """Fields of the frame that asks for the session."""

    connect_seq: int | None
    """The session's connect_seq; None if its own dial has just been answered by another one, or by a reset."""

    @property
    def distance(self) -> int | None:
        """How far the connect_seq of the dial is ahead of the session's; a CLIENT_IDENT has none."""
        return None if self.connect_seq is None else int(self.asked.get("connect_seq", 0)) - self.connect_seq

    @property
    def resumes(self) -> bool:
        """True if the dial and the session know each other by the same cookies; v1 has no cookies."""
        known = (self.state["client_cookie"], self.state["server_cookie"])
        return self.tag == "CONNECT" or (self.asked.get("client_cookie"), self.asked.get("server_cookie")) == known


def race_verdict(index: Index, findings: Findings) -> None:
    """race_verdict: a dial gets WAIT only if the session dials too, or resumes with the same connect_seq.

    The side that wins a race by its address takes the other's dial only after a dial of its own has failed for
    which the other had got WAIT.
    """
    waits: dict[SessionLog, list[int]] = defaultdict(list)
    granted: dict[SessionLog, int] = {}
    places: Places | None = None
    for position, record in index.by_kind.get("decision", ()):
        dial = _dial(index, position, record)
        if dial is None:
            continue
        is_taken_over = granted.get(dial.log, -1) > dial.state_at  # no state is recorded until the link opens
        if dial.verdict in GRANTS:
            granted[dial.log] = position
        if is_taken_over:
            continue
        if why := _wrong_wait(dial) if dial.verdict == "WAIT" else _wrong_retry(dial):
            findings.add(position, f"{dial.link.key.link} receives {dial.verdict}: {why}")
        elif dial.verdict == "WAIT":
            waits[dial.log].append(position)
        elif _is_taken_in_a_race(dial):
            places = places or Places(index)
            if _has_won(places, dial) and not _has_waited_in_vain(dial, waits[dial.log]):
                text = f"{dial.link.key.link} takes over {index.name(dial.log)}, whose dial has won by its address"
                findings.add(position, text)


def _dial(index: Index, position: int, record: Record) -> _Dial | None:
    link = index.link_of(record)
    if link is None or record["session"] is None:
        return None
    log = index.sessions.get(SessionKey(index.process_of(link), record["session"]))
    asked = next((f for at, f in reversed(link.talk) if at < position and f["tag"] in _ASKS), None)
    if log is None or asked is None:
        return None
    states = log.of("state")
    state_number = _number_of(states, position) - 1
    if state_number < 0 or not isinstance(asked["fields"], dict):
        return None
    state_at, state = states[state_number]
    connect_seq = _connect_seq(log, state_at, state, position)
    return _Dial(
        position, record["verdict"], link, log, state_at, state, asked["tag"], asked["fields"], connect_seq
    )


def _number_of(entries: list[Entry], position: int) -> int:
    """Return how many entries are before a position."""
    return bisect_left(entries, position, key=itemgetter(0))


def _connect_seq(log: SessionLog, state_at: int, state: Record, position: int) -> int | None:
    """Return the recorded one, or that of the session's own dial since: resets and retries are not recorded."""
    known: int | None = state["connect_seq"]
    talk = (entry for link in _dials_since(log, state_at) for entry in link.talk)
    for at, record in talk:
        if not state_at < at < position:
            continue
        fields = record["fields"]
        if record["direction"] == "rx" and fields.get("tag", record["tag"]) in _RENUMBERED:
            known = None
        elif record["direction"] == "tx" and record["tag"] in _ASKS:
            known = int(fields.get("connect_seq", 0))
    return known


def _dials_since(log: SessionLog, position: int) -> list[LinkLog]:
    """Return the session's dialled links that were not closed before a position; it has one at a time."""
    dialled = (link for link in reversed(log.links) if link.dialled)
    return [*takewhile(lambda link: link.closed is None or link.closed > position, dialled)][::-1]


def _wrong_wait(dial: _Dial) -> str:
    """Return why the dial should not wait; empty if it should."""
    state = dial.state["state"]
    if dial.log.policy is not None and dial.log.policy.server:
        return "a server never dials"
    at_rest = {"CLIENT_IDENT": _AT_REST, "CONNECT": {SessionState.STANDBY}}.get(dial.tag, ())
    if state in at_rest:  # SESSION_RECONNECT is judged by its connect_seq: the keepalive behind WAIT wakes STANDBY
        return f"the session is {state}, and does not dial"
    if dial.resumes and dial.tag != "CLIENT_IDENT" and dial.distance:
        return f"its connect_seq is {dial.asked['connect_seq']}, that of the session {dial.connect_seq}"
    return ""


def _wrong_retry(dial: _Dial) -> str:
    """Return why RETRY_SESSION is wrong on v1; empty if it is right or another verdict was given."""
    if dial.verdict != "RETRY_SESSION" or dial.distance != 0:
        return ""
    state = dial.state["state"]
    return "" if state in _AT_REST else f"the session is {state}, so both dials race"


def _is_taken_in_a_race(dial: _Dial) -> bool:
    """True if the dial takes over a session whose own dial has the same rank."""
    state, policy = dial.state, dial.log.policy
    if dial.verdict not in GRANTS or state["state"] != SessionState.CONNECTING or policy is None or policy.server:
        return False
    if policy.lossy:
        return False
    if dial.tag == "CLIENT_IDENT":
        return not state["server_cookie"] and dial.asked.get("client_cookie") not in _client_cookies(dial)
    return dial.resumes and dial.distance == 0


def _client_cookies(dial: _Dial) -> set[int]:
    """The client cookies of the session: the recorded one, and those that it has sent since."""
    sent = (
        record["fields"].get("client_cookie", 0)
        for link in _dials_since(dial.log, dial.state_at)
        for at, record in link.talk
        if at < dial.position and record["tag"] == "CLIENT_IDENT" and record["direction"] == "tx"
    )
    return {int(dial.state["client_cookie"]), *sent}


def _has_won(places: Places, dial: _Dial) -> bool:
    """True if the session's own address is the lower one; False if it is not known."""
    both = places.of(dial.link)
    return both is not None and both[0].sort_key() < both[1].sort_key()


def _has_waited_in_vain(dial: _Dial, waits: list[int]) -> bool:
    """True if a link of the session broke after the peer got WAIT, and none has opened since."""
    states, faults = dial.log.of("state"), dial.log.of("fault")
    before = reversed(states[: _number_of(states, dial.position)])
    opened = next((at for at, record in before if record["state"] == SessionState.READY), -1)
    if opened < 0 and dial.log.earlier is not None:
        return True  # perhaps: earlier records have left the history
    if not waits or waits[-1] < opened:
        return False
    waited = waits[bisect_left(waits, opened)]
    broken = faults[_number_of(faults, waited) : _number_of(faults, dial.position)]
    return any(record["reason"] != FaultReason.RACE.name for _, record in broken)
