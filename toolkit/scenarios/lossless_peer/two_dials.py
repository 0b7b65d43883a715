"""LP: races between two dials: the winner, the waiting loser, and faults or mark-downs in the middle."""

from messenger.cephx.exchange import AuthMethod
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES
from messenger.interception import Action
from messenger.session.existing import Verdict, judge_client_ident
from messenger.session.policy import LOSSLESS_PEER
from messenger.session.session import Session
from messenger.v1.existing import Verdict as V1Verdict
from messenger.v1.existing import judge_connect
from messenger.v1.wire import Connect
from messenger.v2.wire import ClientIdent
from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_peer import LP

_STEPS = {
    # name: does the winner pass it (or the loser), point on v2, on v1, which pass of it on v1
    "winner connecting": (True, "SOCKET_CONNECTING", "SOCKET_CONNECTING", 1),
    "winner banner out": (True, "BANNER_WRITE", "BANNER_WRITE", 1),
    "winner banner in": (True, "BANNER_READ", "BANNER_READ", 1),
    "winner hello in": (True, "HELLO READ", "IDENTIFY READ", 1),
    "winner auth out": (True, "AUTH_REQUEST WRITE", "CONNECT WRITE", 1),
    "winner auth in": (True, "AUTH_DONE READ", "CONNECT_REPLY READ", 1),
    "winner ident out": (True, "CLIENT_IDENT WRITE", "CONNECT WRITE", 2),
    "loser banner out": (False, "BANNER_WRITE", "BANNER_WRITE", 1),
    "loser banner in": (False, "BANNER_READ", "BANNER_READ", 1),
    "loser hello in": (False, "HELLO READ", "IDENTIFY READ", 1),
    "loser auth in": (False, "AUTH_REQUEST READ", "CONNECT READ", 1),
    "loser auth out": (False, "AUTH_DONE WRITE", "CONNECT_REPLY WRITE", 1),
    "loser ident in": (False, "CLIENT_IDENT READ", "CONNECT READ", 2),
    "loser ident out": (False, "SERVER_IDENT WRITE", "CONNECT_REPLY WRITE", 2),
    "winner ident in": (True, "SERVER_IDENT READ", "SEQ READ", 1),
    "winner keepalive": (True, "KEEPALIVE2 WRITE", "KEEPALIVE2 WRITE", 1),
}


def _race(lab: Lab) -> tuple[str, str]:
    """Have both dial; the winner's dial is blocked before it connects, and the loser has got WAIT."""
    winner, loser = lab.race_winner("a", "b")
    lab.arm(winner, "SOCKET_CONNECTING", Action.BLOCK)
    lab.dial(winner, loser)
    lab.send(loser, winner, count=3)
    lab.expect_state(loser, winner, "WAIT")
    return winner, loser


@LP.scenario("LP-17", "loser_waiting_winner_dies", cases={name: {"step": step} for name, step in _STEPS.items()})
def loser_waiting_winner_dies(lab: Lab, step: tuple[bool, str, str, int]) -> None:
    """The loser of a race delivers its messages even if the winner's link breaks after WAIT.

    Two peers dial each other. The loser has messages, gets WAIT and ends its dial; the winner has nothing to send.
    The winner's link breaks, at a different step in each case. The winner dials again, because it has to send the
    loser a keepalive, or else the loser dials after ms_max_backoff: by then every message arrives.
    """
    of_winner, v2_point, v1_point, v1_nth = step
    longest_s = 1.0 if lab.real_time else 15.0
    lab.two("lossless_peer", ms_max_backoff=longest_s)
    winner, loser = _race(lab)
    node, point = winner if of_winner else loser, v1_point if lab.is_v1 else v2_point
    if point == "SOCKET_CONNECTING":
        lab.refuse(winner, loser)
    elif point == "KEEPALIVE2 WRITE" or of_winner or lab.is_v1:
        lab.arm(node, point, nth=v1_nth if lab.is_v1 else 1)
    else:
        lab.arm(node, point)
    before = lab.dials(winner)
    lab.unblock(winner, "SOCKET_CONNECTING")
    if point == "SOCKET_CONNECTING":
        lab.wait_for_dials(winner, before + 1)
        lab.refuse(winner, loser, refused=False)
    else:
        lab.expect_hit(node, point)
    lab.expect_delivered(loser, winner, 3, within_s=longest_s + 5.0)
    lab.require(lab.verdicts(winner)[0] == "WAIT", f"the winner must make the loser wait: {lab.verdicts(winner)}")
    lab.exchange(count=2)
    for name, peer in (winner, loser), (loser, winner):
        lab.expect_no_event(name, peer, "reset")
        lab.expect_no_event(name, peer, "remote_reset")
    lab.settle()
    lab.require(
        lab.frames(winner, "KEEPALIVE2") != [],
        "who makes a peer wait must send a keepalive, so that it really dials",
    )


@LP.scenario(
    "LP-20",
    "markdown_at_every_step_of_race",
    cases={
        f"{name}, {side} gives up": {"step": step, "side": side}
        for name, step in _STEPS.items()
        for side in ("winner", "loser")
        if "keepalive" not in name
    },
)
def markdown_at_every_step_of_race(lab: Lab, step: tuple[bool, str, str, int], side: str) -> None:
    """A mark-down in the middle of a race removes the session, and a new one opens.

    Two peers dial each other; the race is held, at a different step in each case, and one of them marks its
    session down. Then no session is registered for the peer's address, and a new connection carries messages both
    ways.
    """
    of_winner, v2_point, v1_point, v1_nth = step
    lab.two("lossless_peer_reuse")
    winner, loser = lab.race_winner("a", "b")
    node, point = winner if of_winner else loser, v1_point if lab.is_v1 else v2_point
    lab.arm(node, point, Action.BLOCK, nth=v1_nth if lab.is_v1 else 1)
    lab.dial(winner, loser)
    lab.dial(loser, winner)
    lab.expect_hit(node, point)
    lab.wait(lab.rng.choice([0.0, 0.001, 0.05]))
    quitter, other = (winner, loser) if side == "winner" else (loser, winner)
    lab.mark_down(quitter, other)
    if not lab.real_time:  # on sockets the peer's own dial may open a new one in between
        registered = lab.snapshot(quitter)["registry"]
        lab.require(registered == 0, f"{registered} sessions are registered at {quitter} after mark_down")
    lab.unblock(node, point)
    lab.wait(0.5)
    lab.connect(quitter, other)
    lab.send(quitter, other, count=2)
    lab.expect_delivered(quitter, other, 2)
    lab.send(other, quitter, count=2)
    lab.expect_delivered(other, quitter, 2)
    lab.expect(quitter, "registry", 1)
    lab.expect(other, "registry", 1)
    lab.settle()


# ---- the winner, by addresses

_PLACES = {
    "v4": ("v4", "v4"),
    "v6": ("v6", "v6"),
    "v4 and v6": ("v4", "v6"),
    "same ip": ("v4", "port"),
    "same ip and port": ("v4", "nonce"),
    "both protocols": ("both", "both"),
}


def _random_addr(lab: Lab, kind: str) -> EntityAddr:
    bits = lab.rng.getrandbits
    ip = ".".join(str(bits(8)) for _ in range(4)) if kind == "v4" else ":".join(f"{bits(16):x}" for _ in range(8))
    return EntityAddr.from_host(ip, 1 + bits(15), AddressType.MSGR2).with_nonce(bits(32))


def _random_pair(lab: Lab, kinds: tuple[str, str]) -> tuple[AddrVec, AddrVec]:
    """The addresses of two different peers."""
    first = _random_addr(lab, "v6" if kinds[0] == "v6" else "v4")
    while True:
        if kinds[1] == "port":
            second = EntityAddr.from_host(first.host, 1 + lab.rng.getrandbits(15), first.type)
            second = second.with_nonce(lab.rng.getrandbits(32))
        elif kinds[1] == "nonce":
            second = first.with_nonce(lab.rng.getrandbits(32))
        else:
            second = _random_addr(lab, "v6" if kinds[1] == "v6" else "v4")
        if second != first:
            break
    if kinds[0] != "both":
        return AddrVec((first,)), AddrVec((second,))
    ports = [1 + lab.rng.getrandbits(15) for _ in range(2)]
    return tuple(  # type: ignore[return-value]
        AddrVec((addr, EntityAddr.from_host(addr.host, port, AddressType.LEGACY).with_nonce(addr.nonce)))
        for addr, port in zip((first, second), ports, strict=True)
    )


def _dialling(peer: AddrVec) -> Session:
    return Session(1, EntityType.OSD, peer, peer.front, LOSSLESS_PEER)


def _v2_accepts(mine: AddrVec, peer: AddrVec) -> bool:
    """True if the messenger at ``mine``, which dials ``peer`` itself, accepts the peer's dial."""
    ident = ClientIdent(peer, mine.front, 1, 1, CLIENT_FEATURES, 0, 0, client_cookie=7)
    return judge_client_ident(_dialling(peer), ident, mine.msgr2_addr()).verdict is Verdict.REUSE


def _v1_accepts(mine: AddrVec, peer: AddrVec) -> bool:
    connect = Connect(CLIENT_FEATURES, EntityType.OSD, 1, 0, 0, AuthMethod.CEPHX, 0, b"")
    mine_v1, peer_v1 = (addrs.addrs[-1].with_type(AddressType.LEGACY) for addrs in (mine, peer))
    decision = judge_connect(
        _dialling(peer), connect, LOSSLESS_PEER, peer_addr=peer_v1, my_addr=mine_v1, replacing=False
    )
    return decision.verdict is V1Verdict.REPLACE


@LP.scenario(
    "LP-22",
    "winner_agreement",
    backends=("sim",),
    only="addresses of all kinds cannot be bound here",
    cases={name: {"kinds": kinds} for name, kinds in _PLACES.items()},
)
def winner_agreement(lab: Lab, kinds: tuple[str, str]) -> None:
    """Both sides of a race find the same winner for all addresses.

    For 200 random pairs of addresses exactly one side lets the other's dial win: if both did, both links would
    close; if neither did, both sides would wait. Then one such race is run.
    """
    accepts = _v1_accepts if lab.is_v1 else _v2_accepts
    for _ in range(200):
        first, second = _random_pair(lab, kinds)
        answers = accepts(first, second), accepts(second, first)
        lab.require(answers[0] != answers[1], f"{first} and {second} must agree on one winner: {answers}")
    pair = sorted(
        (addrs.front.with_type(lab.protocol.addr_type) for addrs in _random_pair(lab, kinds)),
        key=EntityAddr.sort_key,
        reverse=bool(lab.rng.getrandbits(1)),
    )
    if kinds[1] == "nonce":
        lab.two("lossless_peer")  # two messengers cannot listen at one place
    else:
        for name, entity, addr in zip("ab", ("osd.1", "osd.2"), pair, strict=True):
            lab.node(name, entity, "lossless_peer", addr=str(addr))
        lab.start()
    for name, peer in ("a", "b"), ("b", "a"):
        lab.send(name, peer, count=3)
    lab.expect_delivered("b", "a", 3)
    lab.expect_delivered("a", "b", 3)
    lab.settle()
    for name in "ab":
        snapshot = lab.snapshot(name)
        lab.require(
            (snapshot["links"], snapshot["registry"]) == (1, 1),
            f"exactly one link must survive at {name}: {snapshot}",
        )
