"""CF01 to CF20: a fault at one or two points of a flow without a connection race."""

from toolkit.scenarios.crimson.model import Counts, Expectation, Expected, Function, Stop, SubRun

_CLOSED_EARLY = Expected("closed", accept=(1, 0, 0, 0))
_CLOSED_AT_IDENT = Expected("closed", accept=(1, 1, 0, 0))
_ACCEPTED = Expected("established", accept=(1, 1, 0, 1))
_ACCEPTED_AGAIN = Expected("established", accept=(1, 1, 0, 2))
_ACCEPTED_THRICE = Expected("established", accept=(1, 1, 0, 3))
_REPLACED_AT_IDENT = Expected("replaced", accept=(1, 1, 0, 0))
_REPLACED_AT_RECONNECT = Expected("replaced", accept=(1, 0, 1, 0))


def _connected(*counts: int) -> Expected:
    return Expected("established", connect=_counts(counts))


def _counts(counts: tuple[int, ...]) -> Counts:
    attempts, idents, reconnects, events = counts
    return (attempts, idents, reconnects, events)


def _run(
    number: int,
    stops: str,
    tested: Expectation,
    peer: Expectation,
    arrives: tuple[int | None, int | None] | None = None,
) -> SubRun:
    return SubRun(
        id=f"X{number:03}",
        stops=tuple(Stop.parse(stop) for stop in stops.split(", ")),
        tested=tested,
        peer=peer,
        arrives=arrives,
    )


def _runs(first: int, stops: tuple[str, ...], tested: Expectation, peer: Expectation) -> tuple[SubRun, ...]:
    """Consecutive sub-runs with the same expected result."""
    return tuple(_run(first + index, stop, tested, peer) for index, stop in enumerate(stops))


_BANNER = ("FAULT BANNER_WRITE", "FAULT BANNER_READ", "FAULT BANNER_PAYLOAD_READ")
_HELLO = ("FAULT HELLO WRITE", "FAULT HELLO READ")
_SIGNATURE = ("FAULT AUTH_SIGNATURE WRITE", "FAULT AUTH_SIGNATURE READ")
_CONNECTING = (*_BANNER, *_HELLO, "FAULT AUTH_REQUEST WRITE", "FAULT AUTH_DONE READ", *_SIGNATURE)
_ACCEPTING = (*_BANNER, *_HELLO, "FAULT AUTH_REQUEST READ", "FAULT AUTH_DONE WRITE", *_SIGNATURE)

_LOSSY = (
    Function(
        id="CF01",
        name="lossy_early_connect_fault",
        policy="lossy_client",
        peer_policy="stateless_server",
        steps=("send", "dial"),
        runs=(
            _run(1, "FAULT SOCKET_CONNECTING", (_connected(2, 1, 0, 1),), (_ACCEPTED,)),
            *_runs(2, _CONNECTING, (_connected(2, 1, 0, 1),), (_CLOSED_EARLY, _ACCEPTED)),
        ),
    ),
    Function(
        id="CF02",
        name="lossy_connect_fault",
        policy="lossy_client",
        peer_policy="stateless_server",
        steps=("send", "dial"),
        runs=(
            _run(11, "FAULT CLIENT_IDENT WRITE", (_connected(2, 2, 0, 1),), (_CLOSED_EARLY, _ACCEPTED)),
            _run(
                12,
                "FAULT SERVER_IDENT READ",
                (_connected(2, 2, 0, 1),),
                (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)), _ACCEPTED),
            ),
        ),
    ),
    Function(
        id="CF03",
        name="lossy_connected_fault",
        policy="lossy_client",
        peer_policy="stateless_server",
        steps=("send", "peer send", "dial"),
        runs=(
            _run(
                13,
                "FAULT MESSAGE WRITE",
                (Expected("closed", connect=(1, 1, 0, 1), reset=(1, 0)),),
                (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),),
                arrives=(None, 0),
            ),
            _run(
                14,
                "FAULT MESSAGE READ",
                (Expected("closed", connect=(1, 1, 0, 1), reset=(1, 0)),),
                (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),),
                arrives=(0, None),
            ),
        ),
    ),
    Function(
        id="CF04",
        name="lossy_early_accept_fault",
        policy="stateless_server",
        peer_policy="lossy_client",
        steps=("peer send", "peer dial"),
        runs=_runs(15, _ACCEPTING, (_CLOSED_EARLY, _ACCEPTED), (_connected(2, 1, 0, 1),)),
    ),
    Function(
        id="CF05",
        name="lossy_accept_fault",
        policy="stateless_server",
        peer_policy="lossy_client",
        steps=("peer send", "peer dial"),
        runs=(_run(24, "FAULT CLIENT_IDENT READ", (_CLOSED_AT_IDENT, _ACCEPTED), (_connected(2, 2, 0, 1),)),),
    ),
    Function(
        id="CF06",
        name="lossy_establishing_fault",
        policy="stateless_server",
        peer_policy="lossy_client",
        steps=("peer send", "peer dial"),
        runs=(
            _run(
                25,
                "FAULT SERVER_IDENT WRITE",
                (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)), _ACCEPTED),
                (_connected(2, 2, 0, 1),),
            ),
        ),
    ),
    Function(
        id="CF07",
        name="lossy_accepted_fault",
        policy="stateless_server",
        peer_policy="lossy_client",
        steps=("send", "peer send", "peer dial"),
        runs=(
            _run(
                26,
                "FAULT MESSAGE WRITE",
                (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),),
                (Expected("closed", connect=(1, 1, 0, 1), reset=(1, 0)),),
                arrives=(None, 0),
            ),
            _run(
                27,
                "FAULT MESSAGE READ",
                (Expected("closed", accept=(1, 1, 0, 1), reset=(1, 0)),),
                (Expected("closed", connect=(1, 1, 0, 1), reset=(1, 0)),),
                arrives=(0, None),
            ),
        ),
    ),
)

_LOSSLESS_CLIENT = (
    Function(
        id="CF08",
        name="lossless_connect_fault",
        policy="lossless_client",
        peer_policy="stateful_server",
        steps=("send", "peer send", "dial"),
        runs=(
            _run(28, "FAULT CLIENT_IDENT WRITE", (_connected(2, 2, 0, 1),), (_CLOSED_EARLY, _ACCEPTED)),
            _run(29, "FAULT SERVER_IDENT READ", (_connected(2, 2, 0, 1),), (_ACCEPTED_AGAIN, _REPLACED_AT_IDENT)),
        ),
    ),
    Function(
        id="CF09",
        name="lossless_connected_fault",
        policy="lossless_client",
        peer_policy="stateful_server",
        steps=("send", "peer send", "dial"),
        runs=_runs(
            30,
            ("FAULT MESSAGE WRITE", "FAULT MESSAGE READ"),
            (_connected(2, 1, 1, 2),),
            (_ACCEPTED_AGAIN, _REPLACED_AT_RECONNECT),
        ),
    ),
    Function(
        id="CF10",
        name="lossless_connected_fault2",
        policy="lossless_client",
        peer_policy="stateful_server",
        steps=(
            *("dial", "send", "keepalive", "arrived"),
            *("peer send", "peer keepalive", "arrived"),
            *("send", "arrived"),
            *("peer send", "arrived"),
        ),
        runs=_runs(
            32,
            (
                *("FAULT ACK READ", "FAULT ACK WRITE"),
                *("FAULT KEEPALIVE2 READ", "FAULT KEEPALIVE2 WRITE"),
                *("FAULT KEEPALIVE2_ACK READ", "FAULT KEEPALIVE2_ACK WRITE"),
            ),
            (_connected(2, 1, 1, 2),),
            (_ACCEPTED_AGAIN, _REPLACED_AT_RECONNECT),
        ),
    ),
    Function(
        id="CF11",
        name="lossless_reconnect_fault",
        policy="lossless_client",
        peer_policy="stateful_server",
        steps=("send", "peer send", "dial"),
        runs=(
            _run(
                38,
                "FAULT MESSAGE WRITE, FAULT SESSION_RECONNECT WRITE",
                (_connected(3, 1, 2, 2),),
                (_ACCEPTED_AGAIN, _CLOSED_EARLY, _REPLACED_AT_RECONNECT),
            ),
            _run(
                39,
                "FAULT MESSAGE WRITE, FAULT SESSION_RECONNECT_OK READ",
                (_connected(3, 1, 2, 2),),
                (_ACCEPTED_THRICE, _REPLACED_AT_RECONNECT, _REPLACED_AT_RECONNECT),
            ),
        ),
    ),
)

_LOSSLESS_SERVER = (
    Function(
        id="CF12",
        name="lossless_accept_fault",
        policy="stateful_server",
        peer_policy="lossless_client",
        steps=("send", "peer send", "peer dial"),
        runs=(_run(40, "FAULT CLIENT_IDENT READ", (_CLOSED_AT_IDENT, _ACCEPTED), (_connected(2, 2, 0, 1),)),),
    ),
    Function(
        id="CF13",
        name="lossless_establishing_fault",
        policy="stateful_server",
        peer_policy="lossless_client",
        steps=("send", "peer send", "peer dial"),
        runs=(
            _run(
                41,
                "FAULT SERVER_IDENT WRITE",
                (_ACCEPTED_AGAIN, _REPLACED_AT_IDENT),
                (_connected(2, 2, 0, 1),),
            ),
        ),
    ),
    Function(
        id="CF14",
        name="lossless_accepted_fault",
        policy="stateful_server",
        peer_policy="lossless_client",
        steps=("send", "peer send", "peer dial"),
        runs=_runs(
            42,
            ("FAULT MESSAGE WRITE", "FAULT MESSAGE READ"),
            (_ACCEPTED_AGAIN, _REPLACED_AT_RECONNECT),
            (_connected(2, 1, 1, 2),),
        ),
    ),
    Function(
        id="CF15",
        name="lossless_reaccept_fault",
        policy="stateful_server",
        peer_policy="lossless_client",
        steps=("send", "peer send", "peer dial"),
        runs=(
            _run(
                44,
                "FAULT MESSAGE READ, FAULT SESSION_RECONNECT READ",
                (_ACCEPTED_AGAIN, Expected("closed", accept=(1, 0, 1, 0)), _REPLACED_AT_RECONNECT),
                (_connected(3, 1, 2, 2),),
            ),
            _run(
                45,
                "FAULT MESSAGE READ, FAULT SESSION_RECONNECT_OK WRITE",
                (_ACCEPTED_THRICE, _REPLACED_AT_RECONNECT, _REPLACED_AT_RECONNECT),
                (_connected(3, 1, 2, 2),),
            ),
        ),
    ),
)

_PEERS = (
    Function(
        id="CF16",
        name="peer_connect_fault",
        policy="lossless_peer",
        peer_policy="lossless_peer",
        steps=("send", "dial"),
        runs=(
            _run(46, "FAULT CLIENT_IDENT WRITE", (_connected(2, 2, 0, 1),), (_CLOSED_EARLY, _ACCEPTED)),
            _run(47, "FAULT SERVER_IDENT READ", (_connected(2, 2, 0, 1),), (_ACCEPTED_AGAIN, _REPLACED_AT_IDENT)),
        ),
    ),
    Function(
        id="CF17",
        name="peer_accept_fault",
        policy="lossless_peer",
        peer_policy="lossless_peer",
        steps=("peer send", "peer dial"),
        runs=(_run(48, "FAULT CLIENT_IDENT READ", (_CLOSED_AT_IDENT, _ACCEPTED), (_connected(2, 2, 0, 1),)),),
    ),
    Function(
        id="CF18",
        name="peer_establishing_fault",
        policy="lossless_peer",
        peer_policy="lossless_peer",
        steps=("peer send", "peer dial"),
        runs=(
            _run(
                49,
                "FAULT SERVER_IDENT WRITE",
                (_ACCEPTED_AGAIN, _REPLACED_AT_IDENT),
                (_connected(2, 2, 0, 1),),
            ),
        ),
    ),
    Function(
        id="CF19",
        name="peer_connected_fault_reconnect",
        policy="lossless_peer",
        peer_policy="lossless_peer",
        steps=("send", "dial"),
        runs=(
            _run(
                50,
                "FAULT MESSAGE WRITE",
                (_connected(2, 1, 1, 2),),
                (_ACCEPTED_AGAIN, _REPLACED_AT_RECONNECT),
            ),
        ),
    ),
    Function(
        id="CF20",
        name="peer_connected_fault_reaccept",
        policy="lossless_peer",
        peer_policy="lossless_peer",
        steps=("peer send", "dial"),
        runs=(
            _run(
                51,
                "FAULT MESSAGE READ",
                (
                    Expected("established", connect=(1, 1, 0, 1), accept=(0, 0, 0, 1)),
                    _REPLACED_AT_RECONNECT,
                ),
                (Expected("established", connect=(1, 0, 1, 1), accept=(1, 1, 0, 1)),),
            ),
        ),
    ),
)

FAULTS = (*_LOSSY, *_LOSSLESS_CLIENT, *_LOSSLESS_SERVER, *_PEERS)
