"""CF21 to CF32: both sides dial, or a side continues a handshake that its peer has abandoned."""

from toolkit.scenarios.crimson.model import Counts, Expectation, Expected, Function, Order, Stop, SubRun

_NOTHING = (0, 0, 0, 0)
_ACCEPTED = Expected("established", accept=(1, 1, 0, 1))
_REPLACED_AT_IDENT = Expected("replaced", accept=(1, 1, 0, 0))
_REPLACED_AT_RECONNECT = Expected("replaced", accept=(1, 0, 1, 0))
_REPLACED_AFTER_RESET = Expected("replaced", accept=(1, 1, 1, 0))
_CLOSED_EARLY = Expected("closed", accept=(1, 0, 0, 0))

_INCOMING = (
    *("BANNER_WRITE", "BANNER_READ", "BANNER_PAYLOAD_READ", "HELLO WRITE", "HELLO READ", "AUTH_REQUEST READ"),
    *("AUTH_DONE WRITE", "AUTH_SIGNATURE WRITE", "AUTH_SIGNATURE READ"),
)
"""Points of a handshake as the acceptor passes them."""
_OUTGOING = (
    *("BANNER_WRITE", "BANNER_READ", "BANNER_PAYLOAD_READ", "HELLO WRITE", "HELLO READ", "AUTH_REQUEST WRITE"),
    *("AUTH_DONE READ", "AUTH_SIGNATURE WRITE", "AUTH_SIGNATURE READ"),
)
"""Points of a handshake as the connector passes them."""


def _established(connect: Counts = _NOTHING, accept: Counts = _NOTHING) -> Expected:
    return Expected("established", connect=connect, accept=accept)


def _run(number: int, stops: str, tested: Expectation, peer: Expectation) -> SubRun:
    parsed = tuple(Stop.parse(stop) for stop in stops.split(", ") if stop)
    return SubRun(id=f"X{number:03}", stops=parsed, tested=tested, peer=peer)


def _peers(
    function: str, name: str, steps: tuple[str, ...], *runs: SubRun, order: Order = Order.ANY, note: str = ""
) -> Function:
    return Function(
        id=function,
        name=name,
        policy="lossless_peer",
        peer_policy="lossless_peer",
        steps=steps,
        runs=runs,
        order=order,
        note=note,
    )


def _reconnect_lose(number: int, point: str, reconnects: int) -> SubRun:
    """The incoming reconnect is blocked at ``point`` while the node's own dial is accepted."""
    return _run(
        number,
        f"FAULT MESSAGE READ, BLOCK {point}",
        (_established((1, 0, 1, 1), (1, 1, 0, 1)), Expected("closed", accept=(1, 0, reconnects, 0))),
        (_established((2, 1, reconnects, 1), (0, 0, 0, 1)), _REPLACED_AT_RECONNECT),
    )


def _reconnect_win(number: int, point: str, reconnects: int) -> SubRun:
    """The node's own reconnect is blocked at ``point`` while the peer's dial is accepted."""
    abandoned = () if point.startswith("SOCKET_CONNECTING") else (_CLOSED_EARLY,)
    return _run(
        number,
        f"FAULT MESSAGE WRITE, BLOCK {point}",
        (_established((2, 1, reconnects, 1), (0, 0, 0, 1)), _REPLACED_AT_RECONNECT),
        (_established((1, 0, 1, 1), (1, 1, 0, 1)), *abandoned),
    )


def _connect_lose(number: int, point: str, idents: int) -> SubRun:
    """The incoming dial is blocked at ``point`` while the node's own is accepted."""
    return _run(
        number,
        f"BLOCK {point}",
        (Expected("closed", accept=(1, idents, 0, 0)), _established((1, 1, 0, 1))),
        (_established((1, idents, 0, 0), (0, 0, 0, 1)), _REPLACED_AT_IDENT),
    )


def _connect_win(number: int, point: str, idents: int) -> SubRun:
    """The node's own dial is blocked at ``point`` while the peer's is accepted."""
    abandoned = () if point == "SOCKET_CONNECTING" else (_CLOSED_EARLY,)
    return _run(
        number,
        f"BLOCK {point}",
        (_established((1, idents, 0, 0), (0, 0, 0, 1)), _REPLACED_AT_IDENT),
        (*abandoned, _established((1, 1, 0, 1))),
    )


_RACING = (
    _peers(
        "CF22",
        "racing_reconnect_acceptor_lose",
        ("peer send", "peer dial", "held", "send", "arrived", "release"),
        _reconnect_lose(53, "SESSION_RECONNECT READ", 1),
        *(_reconnect_lose(54 + index, f"{point} #2", 0) for index, point in enumerate(_INCOMING)),
        order=Order.LOWER,
    ),
    _peers(
        "CF23",
        "racing_reconnect_acceptor_win",
        ("send", "dial", "held", "peer send", "replaced 1", "release"),
        _reconnect_win(63, "SESSION_RECONNECT WRITE", 1),
        *(
            _reconnect_win(64 + index, f"{point} #2", 0)
            for index, point in enumerate(("SOCKET_CONNECTING", *_OUTGOING))
        ),
        order=Order.HIGHER,
    ),
    _peers(
        "CF24",
        "racing_connect_acceptor_lose",
        ("peer send", "peer dial", "held", "send", "dial", "arrived", "release"),
        *(_connect_lose(74 + index, point, 0) for index, point in enumerate(_INCOMING)),
        _connect_lose(83, "CLIENT_IDENT READ", 1),
        order=Order.LOWER,
    ),
    _peers(
        "CF25",
        "racing_connect_acceptor_win",
        ("send", "dial", "held", "peer send", "peer dial", "replaced 1", "release"),
        *(_connect_win(84 + index, point, 0) for index, point in enumerate(("SOCKET_CONNECTING", *_OUTGOING))),
        _connect_win(94, "CLIENT_IDENT WRITE", 1),
        order=Order.HIGHER,
    ),
    _peers(
        "CF26",
        "racing_connect_reconnect_lose",
        ("send", "dial", "held", "peer send", "replaced 1", "release"),
        _run(
            95,
            "FAULT SERVER_IDENT READ, BLOCK CLIENT_IDENT WRITE #2",
            (_established((2, 2, 0, 0), (0, 0, 0, 1)), _REPLACED_AFTER_RESET),
            (_established((1, 1, 1, 1), (1, 1, 0, 1)), _CLOSED_EARLY),
        ),
    ),
    _peers(
        "CF27",
        "racing_connect_reconnect_win",
        ("peer send", "dial", "held", "send", "arrived", "release"),
        _run(
            96,
            "FAULT SERVER_IDENT READ, BLOCK SESSION_RECONNECT READ",
            (_established((2, 2, 0, 1)), Expected("closed", accept=(1, 0, 1, 0))),
            (_established((1, 0, 1, 0), (1, 1, 0, 2)), _REPLACED_AT_IDENT),
        ),
    ),
)

_STALE = (
    _peers(
        "CF28",
        "stale_connect",
        ("dial", "held", "peer send", "replaced 1", "release"),
        _run(
            97,
            "STALL SERVER_IDENT READ",
            (_established((1, 1, 0, 0), (0, 0, 0, 1)), _REPLACED_AFTER_RESET),
            (_established((1, 1, 1, 1), (1, 1, 0, 1)),),
        ),
    ),
    _peers(
        "CF29",
        "stale_reconnect",
        ("send", "dial", "held", "peer send", "replaced 1", "release"),
        _run(
            98,
            "FAULT MESSAGE WRITE, STALL SESSION_RECONNECT_OK READ",
            (_established((2, 1, 1, 1), (0, 0, 0, 1)), _REPLACED_AT_RECONNECT),
            (_established((1, 0, 1, 1), (1, 1, 0, 2)), _REPLACED_AT_RECONNECT),
        ),
    ),
    _peers(
        "CF30",
        "stale_accept",
        ("peer dial", "held", "peer send", "arrived", "release"),
        _run(
            99,
            "STALL CLIENT_IDENT READ",
            (Expected("closed", accept=(1, 1, 0, 0)), _ACCEPTED),
            (_established((2, 2, 0, 1)),),
        ),
    ),
    _peers(
        "CF31",
        "stale_establishing",
        ("peer dial", "held", "peer send", "replaced 1", "release"),
        _run(
            100,
            "STALL SERVER_IDENT WRITE",
            (_established(accept=(1, 1, 0, 2)), _REPLACED_AT_RECONNECT),
            (_established((2, 1, 1, 2)),),
        ),
    ),
    _peers(
        "CF32",
        "stale_reaccept",
        ("peer send", "peer dial", "held", "pause 0.21", "release"),
        _run(
            101,
            "FAULT MESSAGE READ, STALL SESSION_RECONNECT_OK WRITE",
            (
                _established(accept=(1, 1, 0, 3)),
                _REPLACED_AT_RECONNECT,
                Expected("closed", accept=(1, 0, 9, 0)),
                _REPLACED_AT_RECONNECT,
            ),
            (_established((4, 1, 11, 3)),),
        ),
        note=(
            "crimson has c2 replaced in the end: its connector asks again on the same link for as long as it is"
            " told SESSION_RETRY_GLOBAL. Here it pauses after 8 of them, so that c2 is closed and the dial after"
            " it, c3, is replaced; CF32+ releases before that"
        ),
    ),
)

RACES = (
    Function(
        id="CF21",
        name="check_peer_wins",
        policy="lossy_client",
        peer_policy="stateless_server",
        steps=("dial",),
        runs=(_run(52, "", (_established((1, 1, 0, 1)),), (_ACCEPTED,)),),
        note="who wins shows in CF22 to CF25: the side with the lower address, in both orders",
    ),
    *_RACING,
    *_STALE,
)

BEYOND = (
    _peers(
        "CF32+",
        "stale_reaccept_released_early",
        ("peer send", "peer dial", "held", "release"),
        SubRun(
            id="X101+",
            stops=(Stop.parse("FAULT MESSAGE READ"), Stop.parse("STALL SESSION_RECONNECT_OK WRITE")),
            tested=(_established(accept=(1, 1, 0, 3)), _REPLACED_AT_RECONNECT, _REPLACED_AT_RECONNECT),
            peer=(_established((3, 1, 2, 3)),),
        ),
    ),
)
"""Rows that crimson does not have."""
