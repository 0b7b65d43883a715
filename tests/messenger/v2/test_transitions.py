"""Every row of the tables leads to the states that it names, and the diagrams are drawn from them."""

from pathlib import Path

import pytest

from docs import states
from messenger.cephx.exchange import AuthMethod, AuthMore, AuthOpening, ConMode
from messenger.denc.codec import Buffer
from messenger.errors import AuthError, FaultReason
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, STATEFUL_SERVER
from messenger.v2.acceptor import ACCEPTOR
from messenger.v2.connector import CONNECTOR
from messenger.v2.link import V2Link
from messenger.v2.states import LinkState
from messenger.v2.wire import AuthRequest, AuthRequestMore, Tag
from tests.support.network import Pair
from tests.support.node import new_node
from tests.support.raw_peer import meet
from tests.support.transitions import step_noter

DOCS = Path(__file__).parents[3] / "docs"
Step = tuple[LinkState, Tag, LinkState]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[Step]:
    """Every step that links take during the test, faults aside."""
    steps: set[Step] = set()
    original = V2Link.handshake_step

    def watched(self: V2Link, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:
        before, frames = LinkState(self.state), len(tags)
        size = original(self, view, start, end, owned=owned, now=now)
        if len(tags) > frames and not self.closed:
            note(self, before, tags[-1])
        return size

    note = step_noter(steps, monkeypatch)
    tags: list[Tag] = []

    def noted(tag: int, segments: tuple[Buffer, ...], *, last: bool) -> object:
        tags.append(Tag(tag))
        return decode(tag, segments, last=last)

    import messenger.v2.link

    decode = messenger.v2.link.decode_control
    monkeypatch.setattr(messenger.v2.link, "decode_control", noted)
    monkeypatch.setattr(V2Link, "handshake_step", watched)
    return steps


def converse() -> None:
    """Every turn a handshake can take."""
    for features in (1, 3):
        for auth in ("none", "cephx"):
            pair = Pair(LOSSLESS_PEER, auth=auth, mode=ConMode.CRC, msgr2_features=features)
            mine, _ = pair.established()
            for _ in range(2):
                pair.wire.cut()
                pair.a.send(mine, 1)
                pair.pass_time(1.0)
            pair.restart_b()
            pair.a.send(mine, 2)
            pair.pass_time(1.0)
    pair = Pair(LOSSLESS_CLIENT, STATEFUL_SERVER)
    mine, theirs = pair.established()
    pair.wire.cut()
    theirs.connect_seq += 5
    theirs.peer_global_seq += 5
    pair.a.send(mine, 1)
    pair.pass_time(1.0)


class Persistent:
    """Tries another method when the first one is refused."""

    def exchange(self, *_: object) -> "Persistent":
        return self

    def start(self) -> AuthOpening:
        return AuthOpening(AuthMethod.CEPHX, b"")

    def bad_method(self, _result: int, _allowed: list[int]) -> AuthOpening:
        return AuthOpening(AuthMethod.NONE, b"")


class Hesitant:
    """Asks for one round more than needed, then refuses."""

    allowed_methods = (AuthMethod.NONE,)

    def __init__(self) -> None:
        self.rounds = 0

    def exchange(self, *_: object) -> "Hesitant":
        return self

    def start(self, *_: object) -> AuthMore:
        return AuthMore(b"")

    def more(self, _payload: bytes) -> AuthMore:
        self.rounds += 1
        if self.rounds == 1:
            return AuthMore(b"")
        raise AuthError(FaultReason.AUTH_DENIED, "no")


def refuse() -> None:
    """A peer that gets BAD_METHOD at its first request, and after two more rounds."""
    node = new_node()
    node.endpoint.me.auth_server = Hesitant()
    peer = meet("acceptor", node)
    peer.handshake(peer.auth_request)
    for frame in (
        AuthRequest(99, [1], b""),
        AuthRequest(AuthMethod.NONE, [1], b""),
        AuthRequestMore(b""),
        AuthRequestMore(b""),
    ):
        peer.send(frame)
    assert not peer.closed
    pair = Pair()
    pair.a.endpoint.me.auth_client = Persistent()
    pair.connect()
    pair.drive()
    pair = Pair(LOSSLESS_PEER, LOSSLESS_PEER.requiring(1 << 62))
    pair.connect()
    pair.drive()


def test_rows_lead_to_their_listed_states(seen: set[Step]) -> None:
    converse()
    refuse()
    table = CONNECTOR | ACCEPTOR
    listed = {(state, tag, target) for (state, tag), row in table.items() for target in row.leads_to}
    assert seen <= listed
    assert listed - seen == set()


def test_the_diagrams_are_up_to_date() -> None:
    drawn = states.files()
    written = {name: (DOCS / name).read_text(encoding="utf-8") for name in drawn}
    assert written == drawn, "run PYTHONPATH=. python docs/states.py"
