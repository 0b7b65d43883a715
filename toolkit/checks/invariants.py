"""The invariants: named checks over a recorded history, looked up by number or by name.

INV-1 to INV-12 have numbers; the id of a check without a number is its name. ``check(history)`` runs all of them,
``check(history, only=["INV-8", "no_plaintext"])`` some. Each value of ``INVARIANTS`` can also be called with a
history.
"""

from collections.abc import Iterable

from messenger.errors import LocalError
from toolkit.checks.acks import acknowledged, received_once
from toolkit.checks.agreement import agreement, decode_total
from toolkit.checks.announcements import one_event_per_link
from toolkit.checks.audit.table import wire_rules
from toolkit.checks.cookies import cookies
from toolkit.checks.counters import monotonic_attempts
from toolkit.checks.decisions import decided_answer
from toolkit.checks.delivery import lossless_delivery, lossy_delivery
from toolkit.checks.draws import drawn_numbers
from toolkit.checks.events import event_grammar, no_stale_session
from toolkit.checks.forgery import reject_forged
from toolkit.checks.history import History
from toolkit.checks.identity import session_identity
from toolkit.checks.index import Index
from toolkit.checks.keepalives import keepalive
from toolkit.checks.lifecycle import link_lifecycle
from toolkit.checks.linearizable import linearizable
from toolkit.checks.liveness import liveness
from toolkit.checks.memory import bounded_memory, bounded_strangers
from toolkit.checks.message_counts import delivered_seqs, sequence_accounting
from toolkit.checks.nonces import nonce_unique
from toolkit.checks.order import no_silent_gap, order, payload
from toolkit.checks.quiescence import quiescence
from toolkit.checks.race_verdicts import race_verdict
from toolkit.checks.races import one_winner
from toolkit.checks.recovery import liveness_after_heal
from toolkit.checks.redials import redial_pause
from toolkit.checks.registry import one_session_per_peer
from toolkit.checks.resources import throttle_turns, throttles_balance, throttles_limited
from toolkit.checks.result import CheckResult, Invariant, Judge
from toolkit.checks.secrecy import no_downgrade, no_plaintext
from toolkit.checks.tickets import ticket_time
from toolkit.checks.timeouts import link_timeouts
from toolkit.checks.totality import table_total

ORDERING, SESSION, SECURITY, RESOURCES = GROUPS = ("ordering", "session", "security", "resources")


def _numbered(
    number: int, name: str, title: str, group: str, *judges: Judge, needs: tuple[str, ...] = ()
) -> Invariant:
    return Invariant(f"INV-{number}", name, title, group, judges, needs)


def _named(judge: Judge, title: str, group: str, *needs: str) -> Invariant:
    name = judge.__name__
    return Invariant(name, name, title, group, (judge,), needs)


_NUMBERED = (
    _numbered(
        1,
        "exactly_once_lossless",
        "Lossless sessions deliver every message once, in order",
        ORDERING,
        lossless_delivery,
    ),
    _numbered(
        2,
        "at_most_once_lossy",
        "Lossy sessions deliver at most once; losses raise a reset",
        ORDERING,
        lossy_delivery,
    ),
    _numbered(
        3,
        "no_stale_session",
        "No message of an ended session is delivered",
        ORDERING,
        no_stale_session,
        needs=("event", "state"),
    ),
    _numbered(
        4, "event_grammar", "Session events follow the grammar", SESSION, event_grammar, needs=("event", "state")
    ),
    _numbered(
        5,
        "one_session_per_peer",
        "One registered session per peer",
        SESSION,
        one_session_per_peer,
        needs=("state",),
    ),
    _numbered(6, "liveness", "No message waits while the network works", RESOURCES, liveness),
    _numbered(
        7,
        "connect_monotonic",
        "connect_seq and global_seq never fall",
        SESSION,
        monotonic_attempts,
        drawn_numbers,
        needs=("state",),
    ),
    _numbered(
        8,
        "seq_accounting",
        "Message numbers of both sides agree",
        SESSION,
        delivered_seqs,
        sequence_accounting,
        needs=("state", "deliver"),
    ),
    _numbered(
        9,
        "throttle_balanced",
        "Throttles release all units they took",
        RESOURCES,
        throttles_balance,
        throttles_limited,
        needs=("throttle", "state"),
    ),
    _numbered(
        10,
        "sealed",
        "Fresh nonces, no plain text, no forgery",
        SECURITY,
        nonce_unique,
        no_plaintext,
        reject_forged,
        needs=("frame", "auth"),
    ),
    _numbered(
        11,
        "frugal",
        "Memory, time and timers are bounded and released",
        RESOURCES,
        bounded_memory,
        throttles_limited,
        bounded_strangers,
        quiescence,
        needs=("usage", "auth"),
    ),
    _numbered(
        12,
        "table_total",
        "Every frame has a transition; no exception escapes",
        SESSION,
        table_total,
        needs=("frame",),
    ),
)
_NAMED = (
    Invariant(
        "order", "order", "Seqs grow by one; each priority keeps its order", ORDERING, (delivered_seqs, order)
    ),
    _named(no_silent_gap, "Each loss is reported by an event", ORDERING),
    _named(acknowledged, "Acknowledgements cover received messages only", ORDERING, "frame", "state"),
    _named(received_once, "Received messages are delivered once", ORDERING, "send", "deliver"),
    _named(payload, "Messages arrive as they were sent", ORDERING),
    _named(linearizable, "Objects of workloads keep acknowledged writes", ORDERING, "operation"),
    _named(one_winner, "One link survives a connection race, by address", SESSION, "decision", "state"),
    _named(wire_rules, "Every frame keeps the wire rules", SESSION, "frame"),
    _named(cookies, "Cookies are set, unique and stable", SESSION, "state", "frame"),
    _named(link_lifecycle, "A link opens once, closes once, then is silent", SESSION, "link"),
    _named(one_event_per_link, "One event for each link that opens a session", SESSION, "event", "state"),
    _named(session_identity, "One peer and one policy for a session", SESSION),
    _named(decided_answer, "Answers to dials carry out the decisions", SESSION, "decision"),
    _named(race_verdict, "WAIT only for a dial that races, and the winner stays", SESSION, "decision", "state"),
    _named(redial_pause, "Pauses between dials", SESSION, "state"),
    _named(nonce_unique, "No key and nonce are used twice", SECURITY, "frame", "auth"),
    _named(no_plaintext, "Secure links carry nothing in plain text", SECURITY, "frame", "auth"),
    _named(no_downgrade, "Both sides use the best mode they allow", SECURITY, "auth"),
    _named(reject_forged, "A changed byte ends the link undelivered", SECURITY, "frame"),
    _named(ticket_time, "Tickets are renewed in time", SECURITY, "auth"),
    Invariant(
        "bounded_memory",
        "bounded_memory",
        "Memory per peer is bounded",
        RESOURCES,
        (bounded_memory, throttles_limited),
        ("usage", "auth"),
    ),
    _named(throttle_turns, "Links that wait for a throttle are admitted in turn", RESOURCES, "wait", "state"),
    _named(liveness_after_heal, "All messages arrive soon after the last fault", RESOURCES, "send", "state"),
    _named(link_timeouts, "Handshakes and silent links end in time", RESOURCES, "link", "state"),
    _named(keepalive, "The link of a silent peer is closed", RESOURCES, "keepalive", "state"),
    _named(quiescence, "At rest no unneeded resource is in use", RESOURCES),
    _named(decode_total, "Streams split into frames without a gap", RESOURCES, "frame"),
    _named(agreement, "Both ends of a stream record the same frames", RESOURCES, "frame"),
)

INVARIANTS = {invariant.id: invariant for invariant in (*_NUMBERED, *_NAMED)}
"""Every invariant by its id."""

_BY_WORD = {word: invariant for invariant in INVARIANTS.values() for word in (invariant.id, invariant.name)}


def select(only: Iterable[str] | None) -> list[Invariant]:
    """Return the invariants with these ids or names; one may be given as it is, and None means all.

    Raises:
        LocalError: there is no such invariant.
    """
    if only is None:
        return list(INVARIANTS.values())
    return [find(word) for word in ([only] if isinstance(only, str) else only)]


def find(word: str) -> Invariant:
    """Return the invariant with that id or name.

    Raises:
        LocalError: there is no such invariant; the text lists the known ones.
    """
    try:
        return _BY_WORD[word]
    except KeyError:
        raise LocalError(f"no invariant {word!r}; known: {', '.join(_BY_WORD)}") from None


def check(history: History, only: Iterable[str] | None = None) -> list[CheckResult]:
    """Check a history against every invariant, or against those in ``only``.

    Args:
        history: the records to check.
        only: ids or names of invariants; None means all.

    Raises:
        LocalError: there is no such invariant.
    """
    asked, index = select(only), Index(history)
    return [invariant.over(index) for invariant in asked]
