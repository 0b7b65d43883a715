"""CF33 to CF40: without faults; the application on either side marks its connection down and goes on."""

from toolkit.scenarios.crimson.model import Check, Counts, Expectation, Expected, Function, Step, SubRun

_OPENING: tuple[Step, ...] = ("dial", "send", "peer send", "arrived")
_OPENED_BY_PEER: tuple[Step, ...] = ("peer dial", "send", "peer send", "arrived")


def _dialled(state: str, counts: Counts = (1, 1, 0, 1), reset: tuple[int, int] = (0, 0)) -> Expected:
    return Expected(state, connect=counts, reset=reset)


def _accepted(state: str, counts: Counts = (1, 1, 0, 1), reset: tuple[int, int] = (0, 0)) -> Expected:
    return Expected(state, accept=counts, reset=reset)


def _script(
    number: int,
    name: str,
    policies: tuple[str, str],
    steps: tuple[Step, ...],
    tested: Expectation,
    peer: Expectation,
) -> Function:
    return Function(
        id=f"CF{number - 69}",
        name=name,
        policy=policies[0],
        peer_policy=policies[1],
        steps=steps,
        runs=(SubRun(id=f"X{number:03}", stops=(), tested=tested, peer=peer),),
    )


_REPLACED = _accepted("replaced", (1, 1, 0, 0))

_LOSSY_CLIENT = _script(
    102,
    "lossy_client",
    ("lossy_client", "stateless_server"),
    (
        *(*_OPENING, Check((_dialled("established"),))),
        *("mark down", "dial", "send", "arrived"),
        Check((_dialled("closed"), _dialled("established"))),
        "peer mark down",
        Check((_dialled("closed"), _dialled("closed", reset=(1, 0)))),
        *("dial", "send"),
    ),
    (_dialled("closed"), _dialled("closed", reset=(1, 0)), _dialled("established")),
    (_accepted("closed", reset=(1, 0)), _accepted("closed"), _accepted("established")),
)

_STATELESS_SERVER = _script(
    103,
    "stateless_server",
    ("stateless_server", "lossy_client"),
    (
        *(*_OPENED_BY_PEER, Check((_accepted("established"),))),
        *("peer mark down", "peer dial", "peer send", "arrived"),
        Check((_accepted("closed", reset=(1, 0)), _accepted("established"))),
        "mark down",
        Check((_accepted("closed", reset=(1, 0)), _accepted("closed"))),
        *("peer dial", "peer send"),
    ),
    (_accepted("closed", reset=(1, 0)), _accepted("closed"), _accepted("established")),
    (_dialled("closed"), _dialled("closed", reset=(1, 0)), _dialled("established")),
)

_LOSSLESS_CLIENT = _script(
    104,
    "lossless_client",
    ("lossless_client", "stateful_server"),
    (
        *(*_OPENING, Check((_dialled("established"),))),
        *("mark down", "dial", "send", "arrived"),
        Check((_dialled("closed"), _dialled("established"))),
        "peer mark down",
        Check((_dialled("closed"), _dialled("established", (2, 2, 1, 2), (0, 1)))),
        *("dial", "send"),
    ),
    (_dialled("closed"), _dialled("established", (2, 2, 1, 2), (0, 1))),
    (_accepted("closed", (1, 1, 0, 2), (0, 1)), _REPLACED, _accepted("established", (1, 1, 1, 1))),
)

_STATEFUL_SERVER = _script(
    105,
    "stateful_server",
    ("stateful_server", "lossless_client"),
    (
        *(*_OPENED_BY_PEER, Check((_accepted("established"),))),
        *("peer mark down", "peer dial", "peer send", "arrived"),
        Check((_accepted("established", (1, 1, 0, 2), (0, 1)), _REPLACED)),
        "mark down",
        Check((_accepted("closed", (1, 1, 0, 2), (0, 1)), _REPLACED, _accepted("established", (1, 1, 1, 1)))),
        *("peer dial", "peer send"),
    ),
    (_accepted("closed", (1, 1, 0, 2), (0, 1)), _REPLACED, _accepted("established", (1, 1, 1, 1))),
    (_dialled("closed"), _dialled("established", (2, 2, 1, 2), (0, 1))),
)


def _peer_connector(number: int, name: str, policy: str, remote_resets: int) -> Function:
    """Standby between the peer's mark-down and the next message, which the reset takes with it."""
    return _script(
        number,
        name,
        (policy, policy),
        (
            *(*_OPENING, Check((_dialled("established"),))),
            *("mark down", "dial", "send", "arrived"),
            Check((_dialled("closed"), _dialled("established"))),
            *("peer mark down", "standby", "dial", "try send"),
        ),
        (_dialled("closed"), _dialled("established", (2, 2, 1, 2), (0, 1))),
        (
            _accepted("closed", (1, 1, 0, 2), (0, remote_resets)),
            _REPLACED,
            _accepted("established", (1, 1, 1, 1)),
        ),
    )


def _peer_acceptor(number: int, name: str, policy: str, remote_resets: int) -> Function:
    """With resetcheck the redial resets the session that is kept; without, its content is replaced silently."""
    kept = (0, remote_resets)
    return _script(
        number,
        name,
        (policy, policy),
        (
            *(*_OPENED_BY_PEER, Check((_accepted("established"),))),
            *("peer mark down", "peer dial", "peer send", "arrived"),
            Check((_accepted("established", (1, 1, 0, 2), kept), _REPLACED)),
            "mark down",
            Check((_accepted("closed", (1, 1, 0, 2), kept), _REPLACED)),
            *("peer dial", "peer try send"),
        ),
        (_accepted("closed", (1, 1, 0, 2), kept), _REPLACED, _accepted("established", (1, 1, 1, 1))),
        (_dialled("closed"), _dialled("established", (2, 2, 1, 2), (0, 1))),
    )


SCRIPTS = (
    _LOSSY_CLIENT,
    _STATELESS_SERVER,
    _LOSSLESS_CLIENT,
    _STATEFUL_SERVER,
    _peer_connector(106, "peer_reuse_connector", "lossless_peer_reuse", 1),
    _peer_acceptor(107, "peer_reuse_acceptor", "lossless_peer_reuse", 1),
    _peer_connector(108, "lossless_peer_connector", "lossless_peer", 0),
    _peer_acceptor(109, "lossless_peer_acceptor", "lossless_peer", 0),
)
