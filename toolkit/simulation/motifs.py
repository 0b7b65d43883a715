"""Motifs: short sequences of operations that lead close to a rare state, which faults alone seldom reach.

A motif is drawn and is part of the plan: other operations come in between, its times vary, and shrinking may drop
some of its steps. It raises the probability of the state, and does not force it.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random

from messenger.interception import Action
from messenger.link import Protocol
from toolkit.simulation.draws import Motif, Options

Step = tuple[float, str, tuple[str | int | float | bool | None, ...]]
"""Seconds after the beginning of the motif, verb, arguments."""

_FIRST_ANSWERS = {Protocol.V1: "CONNECT_REPLY WRITE", Protocol.V2: "SERVER_IDENT WRITE"}
_NEXT_ANSWERS = {Protocol.V1: "CONNECT_REPLY WRITE", Protocol.V2: "SESSION_RECONNECT_OK WRITE"}
_HANDSHAKES = {
    Protocol.V1: ("BANNER", "IDENTIFY", "CONNECT", "CONNECT_REPLY", "MSG"),
    Protocol.V2: ("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_DONE", "CLIENT_IDENT", "SERVER_IDENT", "MESSAGE"),
}
"""Frames that every new session passes."""


def draw_motif(rng: Random, options: Options) -> list[Step]:
    """The operations of the motif that the options have; none if they have no motif."""
    if options.motif is None:
        return []
    return list(_MOTIFS[options.motif](rng, options))


def _winner_dies(rng: Random, options: Options) -> Iterator[Step]:
    """Both dial; the winner sends WAIT, and crashes or is partitioned before its own dial arrives."""
    winner, loser = sorted(rng.choice(options.pairs))  # addresses are given in the order of names
    if rng.random() < 0.3:
        yield 0.0, "cut", (winner, loser)
    else:
        yield 0.0, "mark_down", (winner, loser)
        yield 0.0, "mark_down", (loser, winner)
    yield 0.02, "late_dial", (winner, loser, 3.0)
    yield 0.02, "send", (winner, loser, 1, 20)
    yield 0.02, "send", (loser, winner, 1, 20)
    down_s = rng.choice((0.08, 0.2, 0.5))
    if rng.random() < 0.8:
        yield down_s, "kill", (winner,)
        yield down_s + rng.choice((0.05, 0.5)), "revive", (winner,)
    else:
        yield down_s, "partition", (winner, loser, False)
        yield down_s + rng.choice((3.0, 20.0)), "heal", (winner, loser)


def _crossed(rng: Random, options: Options) -> Iterator[Step]:
    """Both mark down and dial, twice; dials and answers overtake each other."""
    a, b = rng.choice(options.pairs)
    for at_s in (0.0, 0.3):
        yield at_s, "mark_down", (a, b)
        yield at_s, "mark_down", (b, a)
        if rng.random() < 0.5:
            yield at_s + 0.02, "late_dial", (a, b, rng.choice((0.002, 0.005, 0.01)))
        yield at_s + 0.02, "send", (a, b, 1, 20)
        yield at_s + 0.02 + rng.choice((0.0, 0.0, 0.002)), "send", (b, a, 1, 20)


def _answer_held(rng: Random, options: Options) -> Iterator[Step]:
    """The acceptor is blocked before its answer; the dialler loses the link, which the acceptor cannot notice."""
    dialler, acceptor = rng.choice(options.pairs)
    v1 = options.way.protocol is Protocol.V1
    resumes = rng.random() < 0.6
    answers = _NEXT_ANSWERS if resumes else _FIRST_ANSWERS
    yield 0.0, "send", (dialler, acceptor, 1, 20)
    nth = rng.randrange(2, 4) if v1 else 1  # the first CONNECT_REPLY is the challenge, then perhaps RETRY_GLOBAL
    yield 0.3, "arm", (acceptor, answers[options.way.protocol], Action.BLOCK.value, nth)
    if resumes:
        yield 0.3, "cut", (dialler, acceptor)
    else:  # neither side has a session
        yield 0.3, "mark_down", (dialler, acceptor)
        yield 0.3, "mark_down", (acceptor, dialler)
    yield 0.3005, "send", (dialler, acceptor, 2, 20)
    lost_s = rng.choice((0.35, 0.4, 0.6))
    yield lost_s, "half_open", (acceptor, dialler)
    if rng.random() < 0.3:
        yield lost_s + 0.002, "mark_down", (dialler, acceptor)
        yield lost_s + 0.0025, "send", (dialler, acceptor, 1, 20)
    yield lost_s + rng.choice((0.5, 1.0, 3.0)), "unblock", (acceptor,)


def _cut_in_replay(rng: Random, options: Options) -> Iterator[Step]:
    """A link breaks, and the next one breaks during the replay."""
    sender, receiver = rng.choice(options.pairs)
    yield 0.0, "send", (sender, receiver, 1, 20)
    yield 0.3, "send", (sender, receiver, 7, 1000)
    cut_s = 0.3 + rng.choice((0.0, 0.0001, 0.0005))  # before much of it arrives
    for stream in (1, 2):  # handshakes are of about 1000 bytes
        yield cut_s, "cut_at_byte", (sender, receiver, rng.randrange(800, 7000), stream)
    yield cut_s, "cut", (sender, receiver)
    yield 1.0, "keepalive", (sender, receiver)  # until then the faults go on


def _wrong_target(rng: Random, options: Options) -> Iterator[Step]:
    """A node restarts with another nonce; its peers dial the old one until they learn the new one."""
    dialler, killed = rng.choice(options.pairs)
    yield 0.0, "send", (dialler, killed, 1, 20)
    yield 0.2, "kill", (killed,)
    yield 0.2005, "send", (dialler, killed, 1, 20)
    yield 0.25, "rename", (killed, False)
    yield 0.25 + rng.choice((0.5, 2.0, 6.0)), "tell", (killed,)


def _dials_again(rng: Random, options: Options) -> Iterator[Step]:
    """A client loses its link without the server noticing, and dials again before the server notices."""
    client, server = rng.choice(options.pairs)
    for at_s in (0.0, 0.3, 0.6):
        yield at_s, "send", (client, server, 1, 20)
        yield at_s + 0.1, "half_open", (server, client)


def _stopped_handshake(rng: Random, options: Options) -> Iterator[Step]:
    """A point that every handshake passes is armed, and the next handshake stops there."""
    dialler, acceptor = rng.choice(options.pairs)
    point = f"{rng.choice(_HANDSHAKES[options.way.protocol])} {rng.choice(('READ', 'WRITE'))}"
    action = rng.choice((Action.BLOCK, Action.STALL, Action.STALL, Action.FAULT))
    node = rng.choice((dialler, acceptor))
    yield 0.0, "arm", (node, point, action.value, rng.randrange(1, 3))
    yield 0.0, rng.choice(("cut", "mark_down")), (dialler, acceptor)
    yield 0.001, "send", (dialler, acceptor, 2, 20)
    yield rng.choice((0.3, 1.0, 6.0)), "unblock", (node,)


def _rotated(rng: Random, options: Options) -> Iterator[Step]:
    """A service key is replaced under a session, which is then resumed; the dialler gets the new key later."""
    dialler, acceptor = rng.choice(options.pairs)
    yield 0.0, "send", (dialler, acceptor, 1, 20)
    yield 0.3, "rotate", (acceptor,)
    yield 0.3, "cut", (dialler, acceptor)
    yield 0.3005, "send", (dialler, acceptor, 2, 20)
    yield 0.3 + rng.choice((0.05, 0.5, 2.0)), "fetch", (dialler,)


def _skewed(rng: Random, options: Options) -> Iterator[Step]:
    """A clock is set forward beyond the life of tickets, and back; meanwhile a session is resumed."""
    dialler, acceptor = rng.choice(options.pairs)
    node = rng.choice((dialler, acceptor, acceptor))
    yield 0.0, "send", (dialler, acceptor, 1, 20)
    yield 0.3, "skew", (node, rng.choice((200.0, 7200.0)))
    yield 0.3, "cut", (dialler, acceptor)
    yield 0.3005, "send", (dialler, acceptor, 2, 20)
    yield 0.3 + rng.choice((0.1, 0.5, 2.0)), "skew", (node, 0.0)


_MOTIFS: Mapping[Motif, Callable[[Random, Options], Iterator[Step]]] = {
    Motif.WINNER_DIES: _winner_dies,
    Motif.CROSSED: _crossed,
    Motif.ANSWER_HELD: _answer_held,
    Motif.CUT_IN_REPLAY: _cut_in_replay,
    Motif.WRONG_TARGET: _wrong_target,
    Motif.DIALS_AGAIN: _dials_again,
    Motif.STOPPED_HANDSHAKE: _stopped_handshake,
    Motif.ROTATED: _rotated,
    Motif.SKEWED: _skewed,
}
