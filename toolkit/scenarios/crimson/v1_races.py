"""CF21 to CF32 on msgr v1; see v1.py."""

from dataclasses import replace

from toolkit.scenarios.crimson.model import Counts, Expected, Function, Order
from toolkit.scenarios.crimson.races import RACES
from toolkit.scenarios.crimson.v1 import Row, function_rows, second

_CLOSED_EARLY = Expected("closed", accept=(1, 0, 0, 0))
_REPLACED_NEW = Expected("replaced", accept=(1, 1, 0, 0))
_REPLACED_RETURNED = Expected("replaced", accept=(1, 0, 1, 0))

_INCOMING = (
    ("BANNER_WRITE", 0, 0),
    ("BANNER_READ", 0, 1),
    ("IDENTIFY WRITE", 0, 0),
    ("IDENTIFY READ", 0, 1),
    ("CONNECT READ", 1, 1),
    ("CONNECT_REPLY WRITE", 1, 1),
    ("CONNECT READ #2", 1, 1),
)
"""Where an incoming dial is blocked, and whether its CONNECT was read by then, and written."""
_OUTGOING = (
    ("SOCKET_CONNECTING", 0, None),
    ("BANNER_WRITE", 0, 0),
    ("BANNER_READ", 0, 0),
    ("IDENTIFY READ", 0, 0),
    ("IDENTIFY WRITE", 0, 0),
    ("CONNECT WRITE", 1, 0),
    ("CONNECT_REPLY READ", 1, 1),
    ("CONNECT WRITE #2", 1, 1),
)
"""Where our dial is blocked, and whether its CONNECT was written by then, and read; None: no dial yet."""


def _established(connect: Counts = (0, 0, 0, 0), accept: Counts = (0, 0, 0, 0)) -> Expected:
    return Expected("established", connect=connect, accept=accept)


def _abandoned(idents: int | None, reconnects: int = 0) -> tuple[Expected, ...]:
    return () if idents is None else (Expected("closed", accept=(1, idents, reconnects, 0)),)


def _reconnect_lose() -> list[Row]:
    return [
        (
            f"FAULT MSG READ, BLOCK {second(point)}",
            (_established((1, 0, 1, 1), (1, 1, 0, 1)), Expected("closed", accept=(1, 0, read, 0))),
            (_established((2, 1, written, 1), (0, 0, 0, 1)), _REPLACED_RETURNED),
        )
        for point, read, written in _INCOMING
    ]


def _reconnect_win() -> list[Row]:
    return [
        (
            f"FAULT MSG WRITE, BLOCK {second(point)}",
            (_established((2, 1, written, 1), (0, 0, 0, 1)), _REPLACED_RETURNED),
            (
                _established((1, 0, 1, 1), (1, 1, 0, 1)),
                *(() if read is None else (Expected("closed", accept=(1, 0, read, 0)),)),
            ),
        )
        for point, written, read in _OUTGOING
    ]


def _connect_lose() -> list[Row]:
    return [
        (
            f"BLOCK {point}",
            (Expected("closed", accept=(1, read, 0, 0)), _established((1, 1, 0, 1))),
            (_established((1, written, 0, 0), (0, 0, 0, 1)), _REPLACED_NEW),
        )
        for point, read, written in _INCOMING
    ]


def _connect_win() -> list[Row]:
    return [
        (
            f"BLOCK {point}",
            (_established((1, written, 0, 0), (0, 0, 0, 1)), _REPLACED_NEW),
            (*_abandoned(read), _established((1, 1, 0, 1))),
        )
        for point, written, read in _OUTGOING
    ]


def _in_order(order: Order, run_id: str, function: Function) -> Function:
    """The function with one sub-run that is true only for this order of addresses.

    CF29-1: the takeover that breaks at the peer has counted its connect_seq up to that of the stalled dial
    (docs/protocol.md §3.9), and the lower address wins the race.
    """
    runs = (replace(run, order=order) if run.id == run_id else run for run in function.runs)
    return replace(function, runs=tuple(runs))


_TAKEN_BACK = (
    (_established((1, 1, 0, 0), (0, 0, 0, 1)), _REPLACED_RETURNED),
    (_established((1, 0, 1, 1), (1, 1, 0, 1)),),
)
_TWICE = (_established(accept=(1, 1, 0, 2)), _REPLACED_RETURNED)
_CHECK_WINNER: Function = next(function for function in RACES if function.id == "CF21")

V1_RACES = (
    _CHECK_WINNER,
    function_rows("CF22", *_reconnect_lose()),
    function_rows("CF23", *_reconnect_win()),
    function_rows("CF24", *_connect_lose()),
    function_rows("CF25", *_connect_win()),
    function_rows(
        "CF26",
        (
            "FAULT CONNECT_REPLY READ #2, BLOCK CONNECT WRITE #4",
            (_established((2, 2, 0, 0), (0, 0, 0, 1)), _REPLACED_RETURNED),
            (_established((1, 0, 1, 1), (1, 1, 0, 1)), Expected("closed", accept=(1, 1, 0, 0))),
        ),
    ),
    function_rows(
        "CF27",
        *(
            (
                f"FAULT CONNECT_REPLY READ #2, BLOCK {point}",
                (_established((2, 2, 0, 1)), Expected("closed", accept=(1, 0, 1, 0))),
                (_established((1, 0, 1, 0), (1, 1, 0, 2)), _REPLACED_NEW),
            )
            for point in ("CONNECT READ", "CONNECT READ #2")
        ),
    ),
    function_rows(
        "CF28", *((f"STALL {point}", *_TAKEN_BACK) for point in ("CONNECT_REPLY READ #2", "SEQ READ", "SEQ WRITE"))
    ),
    _in_order(
        Order.HIGHER,
        "CF29-1",
        function_rows(
            "CF29",
            *(
                (
                    f"FAULT MSG WRITE, STALL {point}",
                    (_established((2, 1, 1, 1), (0, 0, 0, 1)), _REPLACED_RETURNED),
                    (_established((1, 0, 1, 1), (1, 1, 0, events)), _REPLACED_RETURNED),
                )
                for point, events in (("CONNECT_REPLY READ #4", 1), ("SEQ READ #2", 2))
            ),
        ),
    ),
    function_rows(
        "CF30",
        (
            "STALL CONNECT READ #2",
            (Expected("closed", accept=(1, 1, 0, 0)), _established(accept=(1, 1, 0, 1))),
            (_established((2, 2, 0, 1)),),
        ),
    ),
    function_rows(
        "CF31",
        (
            "STALL CONNECT_REPLY WRITE #2",
            (_established(accept=(1, 1, 0, 2)), _REPLACED_NEW),
            (_established((2, 2, 0, 1)),),
        ),
        ("STALL SEQ WRITE", _TWICE, (_established((2, 1, 1, 2)),)),
    ),
    *(
        function_rows(
            function,
            (
                "FAULT MSG READ, STALL CONNECT_REPLY WRITE #4",
                (*_TWICE, _REPLACED_RETURNED),
                (_established((3, 1, 2, 2)),),
            ),
            (
                "FAULT MSG READ, STALL SEQ WRITE #2",
                (_established(accept=(1, 1, 0, 3)), _REPLACED_RETURNED, _REPLACED_RETURNED),
                (_established((3, 1, 2, 3)),),
            ),
        )
        for function in ("CF32", "CF32+")
    ),
)
