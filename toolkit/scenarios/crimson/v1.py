"""The table's analogue on msgr v1, which crimson does not implement: the same functions at the points of v1.

Banner, IDENTIFY, CONNECT and CONNECT_REPLY take the place of banner, HELLO, authentication and idents; the in_seqs
after a reply with tag SEQ take that of SESSION_RECONNECT_OK. A handshake has two CONNECTs, because cephx
challenges the first. The protocols differ in this:

* a lossy session ends with any fault after the banner is written, where on v2 it dials again until SERVER_IDENT
  (docs/protocol.md §3.9 step 2).
"""

from dataclasses import replace

from toolkit.scenarios.crimson.faults import FAULTS
from toolkit.scenarios.crimson.model import Counts, Expectation, Expected, Function, Stop, SubRun
from toolkit.scenarios.crimson.races import BEYOND, RACES
from toolkit.scenarios.crimson.scripts import SCRIPTS

_FUNCTIONS = {function.id: function for function in (*FAULTS, *RACES, *BEYOND, *SCRIPTS)}

# Points of a handshake as the connector passes them.
_BEFORE_BANNER = ("SOCKET_CONNECTING", "BANNER_WRITE")
_OPENING = ("BANNER_READ", "IDENTIFY READ", "IDENTIFY WRITE")
_CHALLENGED = ("CONNECT_REPLY READ", "CONNECT WRITE #2")
_GRANTED = ("CONNECT_REPLY READ #2", "SEQ READ", "SEQ WRITE")
# As the acceptor passes them.
_UNANSWERED = ("BANNER_WRITE", "IDENTIFY WRITE")
_INTRODUCED = ("BANNER_READ", "IDENTIFY READ")
_ASKED = ("CONNECT READ", "CONNECT_REPLY WRITE", "CONNECT READ #2")
_LAST_REPLY = "CONNECT_REPLY WRITE #2"

_CLOSED_EARLY = Expected("closed", accept=(1, 0, 0, 0))
_CLOSED_ASKED = Expected("closed", accept=(1, 1, 0, 0))
_CLOSED_RETURNED = Expected("closed", accept=(1, 0, 1, 0))
_REPLACED_NEW = Expected("replaced", accept=(1, 1, 0, 0))
_REPLACED_RETURNED = Expected("replaced", accept=(1, 0, 1, 0))


def _connected(*counts: int, accepted: int = 0) -> Expected:
    return Expected("established", connect=_four(counts), accept=(0, 0, 0, accepted))


def _accepted(events: int) -> Expected:
    return Expected("established", accept=(1, 1, 0, events))


def _four(counts: tuple[int, ...]) -> Counts:
    attempts, idents, reconnects, events = counts
    return (attempts, idents, reconnects, events)


def second(point: str) -> str:
    """The same point on the second link."""
    name, _, nth = point.partition(" #")
    rounds = 2 if "CONNECT" in name and not name.startswith("SOCKET") else 1
    return f"{name} #{int(nth or 1) + rounds}"


Row = tuple[str, Expectation, Expectation]
"""Stops, and what both sides come to."""


def function_rows(function: str, *rows: Row, arrives: tuple[int | None, int | None] | None = None) -> Function:
    """A function of the table, with these sub-runs in place of its own."""
    runs = tuple(
        SubRun(
            id=f"{function}-{number}",
            stops=tuple(Stop.parse(stop) for stop in stops.split(", ") if stop),
            tested=tested,
            peer=peer,
            arrives=arrives,
        )
        for number, (stops, tested, peer) in enumerate(rows, 1)
    )
    return replace(_FUNCTIONS[function], runs=runs)


def _with_more(function: Function, rows: Function) -> Function:
    """Sub-runs of two kinds, by which messages arrive."""
    more = tuple(
        replace(run, id=f"{function.id}-{number}") for number, run in enumerate(rows.runs, len(function.runs) + 1)
    )
    return replace(function, runs=(*function.runs, *more))


# ---- faults while connecting, and while accepting


def _connecting(lossy: bool) -> list[Row]:  # noqa: FBT001 - one of two tables
    """What a connector's fault comes to where it is tried again."""
    again: list[Row] = [
        ("FAULT SOCKET_CONNECTING", (_connected(2, 1, 0, 1),), (_accepted(1),)),
        ("FAULT BANNER_WRITE", (_connected(2, 1, 0, 1),), (_CLOSED_EARLY, _accepted(1))),
    ]
    if lossy:
        return again
    once, twice = (_connected(2, 1, 0, 1),), (_connected(2, 2, 0, 1),)
    return [
        *again,
        *((f"FAULT {point}", once, (_CLOSED_EARLY, _accepted(1))) for point in _OPENING),
        ("FAULT CONNECT WRITE", twice, (_CLOSED_EARLY, _accepted(1))),
        *((f"FAULT {point}", twice, (_CLOSED_ASKED, _accepted(1))) for point in _CHALLENGED),
        *((f"FAULT {point}", twice, (_accepted(2), _REPLACED_NEW)) for point in _GRANTED),
    ]


def _connecting_in_vain() -> list[Row]:
    """The connector's session is lossy, and its banner is out."""

    def ended(idents: int) -> Expectation:
        return (Expected("closed", connect=(1, idents, 0, 0), reset=(1, 0)),)

    known = (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),)
    return [
        *((f"FAULT {point}", ended(0), (_CLOSED_EARLY,)) for point in _OPENING),
        ("FAULT CONNECT WRITE", ended(1), (_CLOSED_EARLY,)),
        *((f"FAULT {point}", ended(1), (_CLOSED_ASKED,)) for point in _CHALLENGED),
        *((f"FAULT {point}", ended(1), known) for point in _GRANTED),
    ]


def _accepting() -> list[Row]:
    once, twice = (_connected(2, 1, 0, 1),), (_connected(2, 2, 0, 1),)
    return [
        *((f"FAULT {point}", (_CLOSED_EARLY, _accepted(1)), once) for point in _UNANSWERED),
        *((f"FAULT {point}", (_CLOSED_EARLY, _accepted(1)), twice) for point in _INTRODUCED),
        *((f"FAULT {point}", (_CLOSED_ASKED, _accepted(1)), twice) for point in _ASKED),
        *((f"FAULT {point}", (_accepted(2), _REPLACED_NEW), twice) for point in (_LAST_REPLY, "SEQ WRITE")),
        ("FAULT SEQ READ", (_accepted(2), _REPLACED_RETURNED), (_connected(2, 1, 1, 2),)),
    ]


def _accepting_in_vain() -> list[Row]:
    """The connector's session is lossy, and ends."""

    def ended(idents: int, events: int = 0) -> Expectation:
        return (Expected("closed", connect=(1, idents, 0, events), reset=(1, 0)),)

    known = (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),)
    return [
        *((f"FAULT {point}", (_CLOSED_EARLY,), ended(0)) for point in _UNANSWERED),
        *((f"FAULT {point}", (_CLOSED_EARLY,), ended(1)) for point in _INTRODUCED),
        *((f"FAULT {point}", (_CLOSED_ASKED,), ended(1)) for point in _ASKED),
        *((f"FAULT {point}", known, ended(1)) for point in (_LAST_REPLY, "SEQ WRITE")),
        ("FAULT SEQ READ", known, ended(1, 1)),
    ]


_LOST_BY_CLIENT = (
    (Expected("closed", connect=(1, 1, 0, 1), reset=(1, 0)),),
    (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),),
)
_RETURNED = ((_connected(2, 1, 1, 2),), (_accepted(2), _REPLACED_RETURNED))
_SMALL = tuple(f"{tag} {way}" for tag in ("ACK", "KEEPALIVE2", "KEEPALIVE2_ACK") for way in ("READ", "WRITE"))

_FAULTS = (
    _with_more(
        function_rows("CF01", *_connecting(lossy=True)),
        function_rows("CF01", *_connecting_in_vain(), arrives=(0, 0)),
    ),
    _with_more(
        function_rows("CF03", ("FAULT MSG WRITE", *_LOST_BY_CLIENT), arrives=(None, 0)),
        function_rows("CF03", ("FAULT MSG READ", *_LOST_BY_CLIENT), arrives=(0, None)),
    ),
    function_rows("CF04", *_accepting_in_vain(), arrives=(0, 0)),
    _with_more(
        function_rows("CF07", ("FAULT MSG WRITE", *_LOST_BY_CLIENT[::-1]), arrives=(None, 0)),
        function_rows("CF07", ("FAULT MSG READ", *_LOST_BY_CLIENT[::-1]), arrives=(0, None)),
    ),
    function_rows("CF08", *_connecting(lossy=False)),
    function_rows("CF09", *((f"FAULT MSG {way}", *_RETURNED) for way in ("WRITE", "READ"))),
    function_rows("CF10", *((f"FAULT {point}", *_RETURNED) for point in _SMALL)),
    function_rows("CF12", *_accepting()),
    function_rows("CF14", *((f"FAULT MSG {way}", *_RETURNED[::-1]) for way in ("WRITE", "READ"))),
    function_rows("CF16", *_connecting(lossy=False)),
    function_rows("CF17", *_accepting()),
    function_rows("CF19", ("FAULT MSG WRITE", *_RETURNED)),
    function_rows(
        "CF20",
        (
            "FAULT MSG READ",
            (_connected(1, 1, 0, 1, accepted=1), _REPLACED_RETURNED),
            (Expected("established", connect=(1, 0, 1, 1), accept=(1, 1, 0, 1)),),
        ),
    ),
)


# ---- a second fault, while connecting again


def _reconnecting() -> list[Row]:
    once, twice = (_connected(3, 1, 1, 2),), (_connected(3, 1, 2, 2),)
    rows = [
        ("SOCKET_CONNECTING", once, (_accepted(2), _REPLACED_RETURNED)),
        *(
            (point, once, (_accepted(2), _CLOSED_EARLY, _REPLACED_RETURNED))
            for point in ("BANNER_WRITE", *_OPENING)
        ),
        ("CONNECT WRITE", twice, (_accepted(2), _CLOSED_EARLY, _REPLACED_RETURNED)),
        *((point, twice, (_accepted(2), _CLOSED_RETURNED, _REPLACED_RETURNED)) for point in _CHALLENGED),
        ("CONNECT_REPLY READ #2", twice, (_accepted(2), _REPLACED_RETURNED, _REPLACED_RETURNED)),
        *((point, twice, (_accepted(3), _REPLACED_RETURNED, _REPLACED_RETURNED)) for point in _GRANTED[1:]),
    ]
    return [(f"FAULT MSG WRITE, FAULT {second(point)}", tested, peer) for point, tested, peer in rows]


def _reaccepting() -> list[Row]:
    once, twice = (_connected(3, 1, 1, 2),), (_connected(3, 1, 2, 2),)
    early = (_accepted(2), _CLOSED_EARLY, _REPLACED_RETURNED)
    rows = [
        *((point, early, once) for point in _UNANSWERED),
        *((point, early, twice) for point in _INTRODUCED),
        *((point, (_accepted(2), _CLOSED_RETURNED, _REPLACED_RETURNED), twice) for point in _ASKED),
        (_LAST_REPLY, (_accepted(2), _REPLACED_RETURNED, _REPLACED_RETURNED), twice),
        ("SEQ WRITE", (_accepted(3), _REPLACED_RETURNED, _REPLACED_RETURNED), twice),
        ("SEQ READ", (_accepted(3), _REPLACED_RETURNED, _REPLACED_RETURNED), (_connected(3, 1, 2, 3),)),
    ]
    return [(f"FAULT MSG READ, FAULT {second(point)}", tested, peer) for point, tested, peer in rows]


_FAULTED_AGAIN = (function_rows("CF11", *_reconnecting()), function_rows("CF15", *_reaccepting()))

V1_FAULTS = (*_FAULTS, *_FAULTED_AGAIN)
V1_SCRIPTS = SCRIPTS
"""Nothing in them belongs to one protocol, and their counters are the same."""
